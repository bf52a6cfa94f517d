"""Prints the requirements of an image from pyproject.toml, so that every version is written once.

    python deployments/requirements.py trainer [EXTRA]…

The trainer's image needs only the packages that `model` and `configs` import: a fifth of all packages.
"""

import re
import sys
import tomllib
from pathlib import Path

# the direct dependencies of `model` and `configs`, and their clients for gs://
TRAINER = {
    "jax", "flax", "optax", "orbax-checkpoint", "tensorstore", "numpy", "pydantic", "ruamel.yaml", "etils", "gcsfs",
    "google-cloud-storage", "qwix", "grain", "sentencepiece", "pyarrow", "tensorboardx",
}  # fmt: skip
_NAME = re.compile(r"[A-Za-z0-9._-]+")


def requirements(pyproject: Path, extras: list[str]) -> list[str]:
    """Return the requirement lines of the trainer's image. Raises KeyError for an extra that the project lacks."""
    project = tomllib.loads(pyproject.read_text(encoding="utf-8"))["project"]
    lines: list[str] = project["dependencies"]
    kept = [line for line in lines if (name := _NAME.match(line)) and name[0].lower() in TRAINER]
    return [*kept, *(line for extra in extras for line in project["optional-dependencies"][extra])]


def main(argv: list[str]) -> int:
    """The command line; exit status 2 for unknown words."""
    if argv[:1] != ["trainer"]:
        sys.stderr.write("usage: requirements.py trainer [EXTRA]…\n")
        return 2
    here = Path(__file__).resolve().parent
    pyproject = next(
        folder / "pyproject.toml" for folder in (here, here.parent) if (folder / "pyproject.toml").exists()
    )
    sys.stdout.write("\n".join(requirements(pyproject, argv[1:])) + "\n")
    return 0


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
