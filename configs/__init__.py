"""The config schema, the YAML files with the configs, and the modules that load and check them."""
