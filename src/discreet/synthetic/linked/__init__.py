"""Several tables of the same people, synthetic: rows of one synthetic person belong together across tables."""
