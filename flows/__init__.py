"""The Prefect flows, each with the steps that it calls in a module beside it, and the command line."""
