"""Lets a trainer wait before it tells of a step, so that a test has the time to do something to it in mid-run.

Steps take milliseconds: a test that only looks how far a run is may be too late on a busy machine. Imported into a
trainer's process where `$WAIT_AT_STEP` is `NAME:STEP:FILE`: a run whose name holds NAME goes on once the file is there,
or a signal has come. Nothing but `model.train` waits.
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
    signal.set_wakeup_fd(writing)  # from now on: a signal may come before the waiting begins

    def waiting(*words: Any, **named: Any) -> logging.LogRecord:
        record = make(*words, **named)
        if f"completed step: {step}," in record.getMessage():
            while not go.exists() and not select.select([reading], [], [], 0.05)[0]:
                pass
        return record

    logging.setLogRecordFactory(waiting)


words = " ".join(sys.orig_argv).partition(" --continue-from ")[0]  # what follows names another run
if "WAIT_AT_STEP" in os.environ and "model.train" in words:
    name, number, file = os.environ["WAIT_AT_STEP"].split(":", 2)
    if name in words:
        wait_at(int(number), Path(file))
