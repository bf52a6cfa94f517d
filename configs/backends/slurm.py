"""The settings of the backend `slurm`."""

from typing import Annotated, Any, ClassVar, Literal

from pydantic import BeforeValidator, Field, field_validator

from configs.backends.queue import QueueSettings
from configs.backends.settings import PlainText

Omissible = Annotated[PlainText | None, BeforeValidator(lambda text: text or None)]  # "" in a file: not set
Flag = Annotated[str, Field(pattern=r"^--[a-z][a-z0-9-]*(=[A-Za-z0-9._:/@+,&|*\[\]-]+)?$", max_length=250)]
# an image of pyxis: a file, or [USER@][REGISTRY#]IMAGE[:TAG]
ContainerImage = Annotated[str, Field(pattern=r"^[A-Za-z0-9./][A-Za-z0-9._:/@+#-]*$", max_length=250)]
# options of sbatch that return no job, or several jobs
REFUSED = ("--array", "--test-only", "--wait", "--wrap", "--export-file", "--het-group")


class Slurm(QueueSettings):
    """A partition of a SLURM cluster, and the options of the jobs that run there."""

    shares_files: ClassVar[bool] = True

    backend: Literal["slurm"] = "slurm"
    partition: PlainText
    account: Omissible = None
    qos: Omissible = None
    nodes: Annotated[int, Field(ge=1)] = 1  # with one process of the trainer on each
    gres: Omissible = None  # devices per node, for example gpu:8
    image: Annotated[ContainerImage | None, BeforeValidator(lambda text: text or None)] = None  # None: no container
    extra: tuple[Flag, ...] = ()  # further options of sbatch, for example [--cpus-per-task=16, --exclusive]
    start_limit_s: Annotated[int, Field(ge=1)] = 24 * 3600
    # seconds of one allocation in which the runs of both arms take turns; None: each run is a job of its own
    allocation_s: Annotated[int, Field(ge=60)] | None = None

    @field_validator("extra")
    @classmethod
    def _check_extra(cls, extra: tuple[str, ...]) -> tuple[str, ...]:
        refused = [flag for flag in extra if flag.partition("=")[0] in REFUSED]
        if refused:
            raise ValueError(f"{', '.join(refused)}: each run is submitted as one job of its own; leave it out")
        return extra

    @property
    def facts(self) -> dict[str, Any]:
        """The settings that can change a run's outcome; see ImageSettings."""
        return self.model_dump(include={"partition", "nodes", "gres", "image"})

    @property
    def alone(self) -> bool:
        """Whether a run has a single process of the trainer; see ImageSettings."""
        return self.nodes == 1


SETTINGS = Slurm
