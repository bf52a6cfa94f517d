"""`python -m flows.cli`: the same as `maxview`."""

from flows.cli.start import main

main()
