"""The config schema, the YAML files with the configs, and the modules that load and check them.

In: YAML. Out: frozen models, each value with its file and line.
Read first: schema.py.
"""
