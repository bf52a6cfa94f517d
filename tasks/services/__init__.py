"""The Prefect server, worker and pool of this machine, what flows ask of them, and how all of them end."""
