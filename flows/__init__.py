"""The Prefect flows, which order the steps, and the command line."""
