"""Runs scripts in turns in one allocation: `turns.py FOLDER IDLE_S`.

NAME.sh is taken, oldest name first, by renaming it to NAME.taken; NAME.ended appears when it has ended. NAME.cancel
ends it by SIGTERM. Exits after IDLE_S seconds without a script, so that an allocation without flow does not stay.
Uses the standard library only: runs with `python -I -S`.
"""

import signal
import subprocess
import sys
import time
from pathlib import Path

POLL_S = 0.5  # between looks at the folder


def main(folder: Path, idle_s: float) -> None:
    """Run the scripts in `folder`, one at a time, until none has come for `idle_s` seconds or SIGTERM has arrived."""
    ending: list[int] = []  # SLURM sends SIGTERM to this process and to the script, which gets its grace period
    signal.signal(signal.SIGTERM, lambda number, _: ending.append(number))
    last = time.monotonic()
    while time.monotonic() - last < idle_s and not ending:
        for script in sorted(folder.glob("*.sh"))[:1]:
            taken = script.rename(script.with_suffix(".taken"))
            process = subprocess.Popen(["bash", str(taken)], stdin=subprocess.DEVNULL)
            cancelled = False
            while process.poll() is None:
                if not cancelled and script.with_suffix(".cancel").exists():
                    cancelled = True
                    process.terminate()
                time.sleep(POLL_S)
            script.with_suffix(".ended").touch()
            last = time.monotonic()
        time.sleep(POLL_S)


if __name__ == "__main__":
    main(Path(sys.argv[1]), float(sys.argv[2]))
