"""Finds the commit, or package version, between good and bad that changed a metric, with few training runs."""
