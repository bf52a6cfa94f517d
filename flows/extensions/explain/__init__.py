"""The command `explain`, and the explanation of a comparison in the flow `compare`."""
