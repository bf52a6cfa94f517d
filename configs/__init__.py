"""WHAT to run: the config schema and the YAML files that fill it."""
