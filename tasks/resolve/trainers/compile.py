"""Builds the command that compiles an arm's training step for a TPU slice, ahead of time and on this machine."""

from pathlib import Path

from configs.errors import ConfigError
from configs.schema import TrainConfig
from configs.topologies import Topology
from tasks.records import RunFiles
from tasks.resolve.trainers.invocation import Invocation
from tasks.resolve.trainers.maxtext import MaxText, translate, write_words
from tasks.resolve.trainers.trainer_source import TrainerSource

# a file of maxview's trainer package, which is run by the Python of MaxText's environment
COMPILE_RECORDER = Path(__file__).parents[3] / "model" / "compile_record.py"
CONFIG = "config.yml"
# Lets several processes load libtpu at once, on machines without a TPU, without querying the TPU metadata server.
ENVIRONMENT = {"JAX_PLATFORMS": "cpu", "TPU_SKIP_MDS_QUERY": "1", "ALLOW_MULTIPLE_LIBTPU_LOAD": "1"}


def plan_compile(
    config: TrainConfig, checkout: TrainerSource, topology: Topology, directory: Path, programs: Path | None = None
) -> Invocation:
    """Return the command that compiles an arm's step and writes its results, such as `compile.json`, to `directory`.

    Maxview's trainer reads `config.yml` there, and caches compiled programs in the folder `programs` (None: no cache).
    Raises ConfigError for a custom program, and for config values that the arm's MaxText does not support.
    """
    if checkout.command is not None:
        raise ConfigError(["a custom command cannot be compiled ahead of time: only maxview's and MaxText's can"])
    if checkout.maxtext is not None:
        argv = _argv_of_maxtext(config, checkout.maxtext, topology, directory)
        own = {"DECOUPLE_GCLOUD": "TRUE"}  # else MaxText retries Google Cloud's metadata server for minutes
    else:
        argv = (checkout.python, "-m", "model.compile", str(directory / CONFIG))
        argv += ("--out", str(directory), "--topology", topology.name)
        # passed as a variable, because the trainer at an older commit would reject an unknown option
        own = {"MAXVIEW_PROGRAMS": str(programs)} if programs else {}
    return Invocation(argv=argv, environment=ENVIRONMENT | own, files=RunFiles(checkpoints=None))


def _argv_of_maxtext(config: TrainConfig, maxtext: MaxText, topology: Topology, directory: Path) -> tuple[str, ...]:
    words = translate(config, maxtext, directory, metrics_file="", alone=True)
    words |= {"compile_topology": name_in_maxtext(topology), "compile_topology_num_slices": "1"}
    return (
        maxtext.python, "-P", str(COMPILE_RECORDER), "--out", str(directory), "--topology", topology.name,
        "--devices", str(topology.devices), "--hbm-bytes", str(topology.hbm_bytes),
        f"{maxtext.module}_compile", maxtext.base_config, *write_words(words),
    )  # fmt: skip


def name_in_maxtext(topology: Topology) -> str:
    """Return MaxText's name of a slice, "v6e-32": the number is of devices; for v5p, of cores (two per device)."""
    generation = topology.name.partition(":")[0]
    if generation == "v5p":
        return f"v5p-{2 * topology.devices}"
    return f"{'tpu7x' if generation == 'v7x' else generation}-{topology.devices}"
