"""Synthetic tables: noisy marginals, a table fitted to them, rows drawn from it.

Tables here are integer codes: `columns` turns columns into codes and back, `measure` counts them with noise, `fit`
makes rows from the noisy counts, `evaluate` says how near they are; `plan` takes the whole through the gate.
"""
