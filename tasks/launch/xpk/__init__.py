"""The backend that runs jobs on a Kubernetes cluster: xpk creates the workloads, maxview reads the API server."""
