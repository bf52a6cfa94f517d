"""The backend that runs jobs on a Kubernetes cluster with JobSet, usually behind a queue of Kueue."""
