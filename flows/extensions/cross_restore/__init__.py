"""The step `cross restore` of a run of MaxText."""
