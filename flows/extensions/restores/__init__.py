"""The command `restores`, and the step that checks the restore of a run."""
