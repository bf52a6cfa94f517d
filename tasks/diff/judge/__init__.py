"""An examination and the evidence of experiments → rows with their verdicts, and the comparison."""
