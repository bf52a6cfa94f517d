"""The Prefect flows, which call the steps of tasks/steps.py in order, and the command line."""
