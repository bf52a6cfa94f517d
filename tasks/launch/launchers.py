"""The backends' implementations: one line for each."""

from collections.abc import Mapping

from tasks.launch import local, xpk
from tasks.launch.backend import Launcher

LAUNCHERS: Mapping[str, Launcher] = {
    "local": local.LAUNCHER,
    "replay": local.LAUNCHER,
    "xpk": xpk.LAUNCHER,
}
