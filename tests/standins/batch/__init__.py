"""A backend of the tests: a job is a process that waits in a queue folder, as with a batch system."""
