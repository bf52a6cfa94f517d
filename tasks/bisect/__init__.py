"""Turns a line of commits between good and bad into the commit that changed a metric, with few runs."""
