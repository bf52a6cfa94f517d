"""A decoder-only transformer, written once in Flax Linen and once in Flax NNX, with one trainer for both.

Array names end in one letter per axis:

    B  sequences in the batch          L  tokens in a sequence (M = L + 1: inputs and targets overlap by all but one)
    E  width of the residual stream    F  width inside the MLP
    H  attention heads                 K  width of one head
    V  tokens in the vocabulary        N  decoder layers, an additional axis of scanned parameters

In attention, L is the position of the query and S the position of the key in the same sequence.
"""
