"""What all backends on Kubernetes share: they follow, end and restart jobs; a backend only creates the JobSet."""
