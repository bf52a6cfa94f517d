"""IN WHAT ORDER: the Prefect flows and the command line."""
