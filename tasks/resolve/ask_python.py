"""Asks another Python what is installed beside it."""

import json
import os
import subprocess
from collections.abc import Sequence
from typing import NamedTuple

from configs import installed
from configs.environment import pass_on
from configs.errors import ConfigError

PATIENCE_S = 120.0


class Installed(NamedTuple):
    """What a Python has: versions by package, Python's own among them; folders of the packages asked for."""

    versions: dict[str, str]
    folders: dict[str, str]


def ask_python(python: str, packages: Sequence[str] = ()) -> Installed:
    """What is installed beside the interpreter `python`, and where `packages` are. Raises ConfigError if it is none."""
    argv = [python, "-I", installed.__file__, *packages]
    try:  # what is installed there may run as it starts, and print
        done = subprocess.run(
            argv, capture_output=True, text=True, check=True, timeout=PATIENCE_S, env=pass_on(os.environ)
        )
        return Installed(**json.loads(done.stdout.splitlines()[-1]))
    except OSError as error:
        raise ConfigError([f"{python}: is no Python: it cannot be run ({error.strerror or error})"]) from error
    except subprocess.TimeoutExpired as error:
        raise ConfigError([f"{python}: did not answer within {PATIENCE_S:.0f} s"]) from error
    except (subprocess.CalledProcessError, ValueError, IndexError, TypeError) as error:
        tail = (getattr(error, "stderr", "") or str(error)).strip().splitlines()[-1:]
        raise ConfigError([f"{python}: is no Python that can say what it has installed: {''.join(tail)}"]) from error
