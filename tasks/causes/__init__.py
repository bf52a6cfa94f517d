"""Two observations of one step, compared: the first tensor that differs, and where it was made."""
