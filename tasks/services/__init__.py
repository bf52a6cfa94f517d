"""The Prefect server, worker and pool of this machine: starting them, using them in flows, and ending them."""
