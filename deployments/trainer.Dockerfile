# The trainer in TPU pods: `python -m model.train`, JAX for TPU, bash and coreutils, without the workflow.
#   docker build -f deployments/trainer.Dockerfile --build-arg COMMIT="$(git rev-parse HEAD)" -t IMAGE .
ARG PYTHON=3.12

FROM python:${PYTHON}-slim AS build
RUN pip install --no-cache-dir "uv>=0.9,<1"
WORKDIR /opt/maxview
COPY pyproject.toml deployments/requirements.py ./
ARG EXTRA=tpu
# in this folder, so that uv takes the date of the resolution from pyproject.toml
RUN uv venv /opt/venv \
    && python requirements.py trainer ${EXTRA} > /tmp/requirements.txt \
    && uv pip install --no-cache --python /opt/venv/bin/python -r /tmp/requirements.txt

FROM python:${PYTHON}-slim
COPY --from=build /opt/venv /opt/venv
WORKDIR /opt/maxview
COPY configs configs
COPY model model
# for the job that times the programs of both arms in turns
COPY probe probe
# the commit for program.json, because the image has no git
ARG COMMIT=""
ENV PATH=/opt/venv/bin:${PATH} PYTHONPATH=/opt/maxview:/opt/maxview/probe PYTHONUNBUFFERED=1 MAXVIEW_COMMIT=${COMMIT}
CMD ["python", "-m", "model.train", "--help"]
