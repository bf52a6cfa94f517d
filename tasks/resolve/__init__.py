"""Resolves a request into run plans: refs, checkouts, environments, trainers, configs, and rules of the verdict."""
