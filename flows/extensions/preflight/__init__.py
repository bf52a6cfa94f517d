"""The command and the flow `preflight`, and the compiles before a comparison on a slice."""
