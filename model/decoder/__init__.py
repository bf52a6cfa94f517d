"""The decoder: its modules in Linen and in NNX, and the functions without parameters that both use."""
