"""Questions beside the pipeline, one whole package each. configs/questions.py has the points at which they act."""

# in the order in which they act
QUESTIONS = ("preflight", "explain", "bisect", "invariants", "history", "restores", "cross_restore", "nightly", "init")
