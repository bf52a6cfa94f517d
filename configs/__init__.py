"""The config schema and the YAML files that fill it."""
