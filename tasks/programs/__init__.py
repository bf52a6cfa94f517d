"""Programs of training steps: lowered or compiled text → graph, work per line, and how two programs differ.

In: files of StableHLO or optimised HLO that runs and compiles keep. Out: `ProgramExplanation`, `ProgramComparison`.
Read first: compare_lowered.py.
"""
