"""What is a difference of two functions in float64, and what is rounding."""

SAME = 1e-12  # largest relative difference of equal functions; measured up to 3e-15 after three training steps
NOISE = 100.0  # times the effect of a last bit of the weights, at a state that no run reached
FAR = 1e-6  # limit at other weights: a softmax of logits of 1e4 loses as many digits in equal functions
GROUP_SHARE = 0.01  # share of the size of a group (all gradients) that counts as size of each of its arrays
