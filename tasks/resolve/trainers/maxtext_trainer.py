"""MaxText as a trainer: a release in an environment, or a git checkout; its commands and the files that it reads."""

import os
from pathlib import Path
from typing import Any, Self

from configs.comparison import Arm
from configs.custom_trainer import CommandTemplate
from configs.errors import ConfigError
from configs.schema import TrainConfig
from configs.topologies import Topology
from tasks.records.plan import Invocation, RunFiles, RunPlan
from tasks.resolve.python_environments import MAXTEXT, make_maxtext_environment
from tasks.resolve.trainers.maxtext import MaxText, find_maxtext, plan_maxtext, translate_config, write_words
from tasks.resolve.trainers.trainer import COMPILE_ENVIRONMENT, SOURCE, Checkout, Trainer, choose_python

PYTHON_VARIABLE = "MAXVIEW_MAXTEXT_PYTHON"  # environment variable: path of a Python that has MaxText
# The Python of MaxText's environment runs this file of maxview's trainer.
COMPILE_RECORDER = Path(__file__).parents[3] / "model" / "compile_record.py"
# paths that can affect a run
READ = ("src/maxtext/", "src/MaxText/", "MaxText/", "src/dependencies/", "pyproject.toml")


class MaxTextTrainer(Trainer):
    """A MaxText. If a run's image has it, `maxtext` is this machine's copy of the image's version."""

    name = "maxtext"
    title = "MaxText"
    loads_full_state = True
    address = "https://github.com/AI-Hypercomputer/maxtext.git"
    release = ("maxtext==0.2.5",)

    maxtext: MaxText

    @classmethod
    def find(cls, arm: Arm, template: CommandTemplate | None, cache: Path, checkout: Checkout | None) -> Self:
        """Return the MaxText of the arm's environment, or of the checkout, which runs in that environment.

        Without packages, it is the environment of the arm's `python`, else of $MAXVIEW_MAXTEXT_PYTHON.
        """
        python, software = choose_python(arm, lambda: make_maxtext_environment(arm.packages, cache))
        named = python or os.environ.get(PYTHON_VARIABLE)
        if not named:
            raise ConfigError(
                [
                    f"{arm.name}: no MaxText is given. Install it with `--with {arm.name}:maxtext==0.2.5`, or name an "
                    f"environment with `--with {arm.name}:/path/to/python` or `export {PYTHON_VARIABLE}=/path/to/"
                    "python`; for nightly runs, set `packages` or `python` of the arm in the comparison's file"
                ]
            )
        maxtext = find_maxtext(Path(named).expanduser().absolute(), checkout.folder if checkout else None)
        return cls(
            commit=None,
            dirty=False,
            versions=maxtext.versions | {SOURCE: maxtext.digest},
            folder=maxtext.source,
            python=maxtext.python,
            software=software,
            maxtext=maxtext,
        )

    @classmethod
    def is_read(cls, path: str, named: frozenset[str] = frozenset()) -> bool:
        return path.startswith(READ)

    @property
    def own_keys(self) -> frozenset[str]:
        return self.maxtext.keys

    @property
    def only_values(self) -> dict[str, Any]:
        """NNX, for a version without Linen; Linen, for one without NNX."""
        supported = self.maxtext.pure_nnx_values
        return {"pure_nnx": next(iter(supported))} if len(supported) == 1 else {}

    @property
    def full_title(self) -> str:
        """The name and the version: of a checkout, as the user named it."""
        return f"MaxText {self.version.short}" if self.version else self.maxtext.title

    def invoke(self, config: TrainConfig, directory: Path, *, in_pod: bool, alone: bool) -> Invocation:
        return plan_maxtext(config, self.maxtext, directory, in_pod=in_pod, alone=alone)

    def invoke_compile(
        self, config: TrainConfig, topology: Topology, directory: Path, programs: Path | None = None
    ) -> Invocation:
        maxtext = self.maxtext
        words = translate_config(config, maxtext, directory, metrics_file="", alone=True)
        words |= {"compile_topology": name_in_maxtext(topology), "compile_topology_num_slices": "1"}
        argv = (
            maxtext.python, "-P", str(COMPILE_RECORDER), "--out", str(directory), "--topology", topology.name,
            "--devices", str(topology.devices), "--hbm-bytes", str(topology.hbm_bytes),
            f"{maxtext.module}_compile", maxtext.base_config, *write_words(words),
        )  # fmt: skip
        own = {"DECOUPLE_GCLOUD": "TRUE"}  # else MaxText retries Google Cloud's metadata server for minutes
        return Invocation(argv=argv, environment=COMPILE_ENVIRONMENT | own, files=RunFiles(checkpoints=None))

    @classmethod
    def name_version(cls, plan: RunPlan, commit: str | None) -> str:
        """Return the commit or the package's version for display; without them: "MaxText of an image"."""
        return f"MaxText {commit[:9] if commit else plan.versions.get(MAXTEXT, 'of an image')}"


def name_in_maxtext(topology: Topology) -> str:
    """Return MaxText's name of a slice, such as "v6e-32": the generation and the number of devices.

    For v5p, the number counts cores, two per device.
    """
    generation = topology.name.partition(":")[0]
    if generation == "v5p":
        return f"v5p-{2 * topology.devices}"
    return f"{'tpu7x' if generation == 'v7x' else generation}-{topology.devices}"


TRAINER = MaxTextTrainer
