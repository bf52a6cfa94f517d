"""Our step against MaxText's, from the same weights on the same batches, where an environment has MaxText."""

# MaxText's name <- ours
NAMES = [
    ("layers/mlp/gate", "layers/MoeBlock_0/gate"),
]
