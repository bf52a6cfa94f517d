"""The command line `python -m model.compile`."""

import sys

from model.compile.ahead_of_time import main

if __name__ == "__main__":
    sys.exit(main(sys.argv[1:]))
