"""The trainer's command line: `python -m model.train CONFIG.yml [key=value …] [--continue-from RUN_DIR]`."""

import argparse
import errno
import os
import sys
from collections.abc import Sequence
from pathlib import Path

from absl import flags, logging
from etils import epath

from configs.load import ConfigError, load_train_config
from model.train.distributed import leave_processes
from model.train.loop import NonFiniteLoss, ResumeMismatch, train
from model.train.stop import catch_sigterm

MAKE_ROOM = (
    "free disk space, or set another base_output_directory or metrics_file; then repeat the same command to resume"
)


def parse_arguments(argv: Sequence[str]) -> argparse.Namespace:
    """Parse the trainer's command line."""
    parser = argparse.ArgumentParser(prog="python -m model.train", description="Train one decoder from a config.")
    parser.add_argument("config", type=Path, help="YAML file with the keys that differ from configs/base.yml")
    parser.add_argument("overrides", nargs="*", metavar="key=value", help="config values that override the file")
    parser.add_argument(
        "--continue-from",
        type=epath.Path,
        metavar="RUN_DIR",
        help="after training, restore the first checkpoint of the run in RUN_DIR, train on, and compare losses and "
        "final state with that run's",
    )
    return parser.parse_intermixed_args(argv)


def main(argv: Sequence[str]) -> int:
    """Run the trainer. Exit status: 0 trained, 1 failed, 2 invalid config, 143 stopped by SIGTERM."""
    arguments = parse_arguments(argv)
    flags.FLAGS.mark_as_parsed()  # absl's flags keep their defaults; argparse reads this command line
    logging.use_absl_handler()
    logging.set_verbosity(logging.INFO)
    try:
        config = load_train_config(arguments.config, arguments.overrides)
        with catch_sigterm() as stop:
            code = train(config, stop, arguments.continue_from)
            leave_processes()
            return code
    except ConfigError as error:
        sys.stderr.write(f"{error}\n")
        return 2
    except Exception as error:
        full = [name for name in map(os.strerror, (errno.ENOSPC, errno.EDQUOT)) if name in str(error)]
        if not full and not isinstance(error, NonFiniteLoss | ResumeMismatch):
            raise
        said = f"{full[0]} ({MAKE_ROOM})" if full else error
        logging.error("Training stopped: %s", said)  # MaxText's wording: log parsers match it
        return 1


if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
