"""Queries another Python interpreter for its installed packages."""

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
    """An interpreter's packages: version by name, including `python`; folder by name for the requested packages."""

    versions: dict[str, str]
    folders: dict[str, str]


def ask_python(python: str, packages: Sequence[str] = ()) -> Installed:
    """Return the installed versions of the interpreter `python` and the folders of `packages`.

    Raises ConfigError if `python` cannot be run or prints no answer.
    """
    argv = [python, "-I", installed.__file__, *packages]
    try:  # a package may run code at start-up (.pth files) and print: only the last line is the answer
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
