"""Settings and handles of the backends, a file for each; `tasks/launch/NAME` runs their jobs."""
