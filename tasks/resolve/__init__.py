"""Turns a request into fully resolved plans: refs, checkouts, environments, trainers, and the rules of the verdict."""
