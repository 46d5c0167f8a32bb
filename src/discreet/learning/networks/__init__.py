"""A small library of networks in NumPy, and models written in JAX."""
