"""Synthetic tables: noisy marginals, a table fitted to them, rows drawn from it.

Tables here are integer codes; `schema` turns columns into codes and back, `plan` takes the whole through the gate.
"""
