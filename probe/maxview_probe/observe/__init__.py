"""Records a training step inside the process of any JAX trainer."""
