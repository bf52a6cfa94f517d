"""What ended a run: the signs of it in a log, exceptions, causes, and the one of many that did."""
