"""For people: do two JAX functions compute the same? Which of two is faster?"""
