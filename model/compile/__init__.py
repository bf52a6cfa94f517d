"""Compiles the training step ahead of time for TPUs that this machine lacks, and analyses programs and profiles."""
