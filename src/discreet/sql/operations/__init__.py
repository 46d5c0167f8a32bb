"""The closed list of operations on private rows, each with its kind and its interval.

Every operation is *total*: whatever a row holds, it gives a value or null, never an error, so nothing about a row can
be read off a failure. Guarantee: a node of kind `Fixed` with bounds evaluates to null or to whole steps within them.
Proof, by induction: columns are clamped when they are read; each rule in these modules gives the exact range of its
operation over the ranges of its arguments, or a larger one (interval arithmetic, Moore 1966); `expression.call` refuses
what 62 bits cannot hold.
"""
