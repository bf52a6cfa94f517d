# Flows in a Kubernetes pool: this repository at /opt/maxview, git for main-vs-branch, and, in the stage `xpk`, the
# tools that launch runs on a cluster.
#   docker build -f deployments/worker.Dockerfile --build-arg COMMIT="$(git rev-parse HEAD)" [--target flows] -t IMAGE .
ARG PYTHON=3.12

FROM debian:bookworm-slim AS build
RUN apt-get update \
    && apt-get install --yes --no-install-recommends python3-venv ca-certificates \
    && rm -rf /var/lib/apt/lists/* \
    && python3 -m venv /opt/uv \
    && /opt/uv/bin/pip install --no-cache-dir "uv>=0.9,<1"
ENV PATH=/opt/uv/bin:${PATH} UV_PYTHON_INSTALL_DIR=/opt/python UV_PROJECT_ENVIRONMENT=/opt/venv UV_LINK_MODE=copy
WORKDIR /opt/maxview
ARG PYTHON
RUN uv python install ${PYTHON}
COPY . .
RUN uv sync --no-cache --python ${PYTHON} --extra k8s
# a separate environment: xpk pins older versions of a dozen of our packages
RUN uv venv --python ${PYTHON} /opt/xpk \
    && uv pip install --no-cache --python /opt/xpk/bin/python xpk==1.16.0

FROM debian:bookworm-slim AS flows
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git ca-certificates \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/python /opt/python
COPY --from=build /opt/venv /opt/venv
COPY --from=build /opt/maxview /opt/maxview
WORKDIR /opt/maxview
ARG COMMIT=""
ENV PATH=/opt/venv/bin:${PATH} PYTHONUNBUFFERED=1 MAXVIEW_COMMIT=${COMMIT} MAXVIEW_HOME=/opt/maxview

FROM google/cloud-sdk:slim AS xpk
RUN apt-get update \
    && apt-get install --yes --no-install-recommends git kubectl google-cloud-cli-gke-gcloud-auth-plugin \
    && rm -rf /var/lib/apt/lists/*
COPY --from=build /opt/python /opt/python
COPY --from=build /opt/venv /opt/venv
COPY --from=build /opt/xpk /opt/xpk
COPY --from=build /opt/maxview /opt/maxview
RUN ln -s /opt/xpk/bin/xpk /usr/local/bin/xpk
WORKDIR /opt/maxview
ARG COMMIT=""
ENV PATH=/opt/venv/bin:${PATH} PYTHONUNBUFFERED=1 MAXVIEW_COMMIT=${COMMIT} MAXVIEW_HOME=/opt/maxview
