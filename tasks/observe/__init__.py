"""Records the training step of a trainer inside the trainer's process: the step's program, arguments and tensors.

In: an arm's command. Out: `Observation` and its files.
Read first: recorder.py.
"""
