"""What two arms show before any experiment: findings, floors, coverage, and the experiments that are needed."""
