"""What runs in a process of its own with JAX. The modules import the standard library, NumPy, JAX, each other and
`tasks.observe.inject`, so that an environment without maxview's packages can run them (see start.py).
"""
