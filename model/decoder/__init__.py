"""The decoder: its layers in Linen and in NNX, and everything in them that has no parameters."""
