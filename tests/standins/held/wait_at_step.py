"""Makes a trainer wait before it logs a step, so that a test can act on it in mid-run.

Steps take milliseconds: a test that polls a run's progress may be too late on a busy machine. Imported into a trainer's
process if `$WAIT_AT_STEP` is `NAME:STEP:FILE`: a run with NAME in its name continues once the file exists or a signal
has arrived. Only `model.train` waits.
"""

import logging
import os
import select
import signal
import sys
from pathlib import Path
from typing import Any


def wait_at(step: int, go: Path) -> None:
    make = logging.getLogRecordFactory()
    reading, writing = os.pipe()
    os.set_blocking(writing, False)
    signal.set_wakeup_fd(writing)  # from now on, because a signal may arrive before the waiting begins

    def waiting(*words: Any, **named: Any) -> logging.LogRecord:
        record = make(*words, **named)
        if f"completed step: {step}," in record.getMessage():
            while not go.exists() and not select.select([reading], [], [], 0.05)[0]:
                pass
        return record

    logging.setLogRecordFactory(waiting)


words = " ".join(sys.orig_argv).partition(" --continue-from ")[0]  # another run's name follows
if "WAIT_AT_STEP" in os.environ and "model.train" in words:
    name, number, file = os.environ["WAIT_AT_STEP"].split(":", 2)
    if name in words:
        wait_at(int(number), Path(file))
