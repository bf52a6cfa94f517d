"""The backend that runs jobs on a SLURM cluster whose nodes share the output folder with this machine."""
