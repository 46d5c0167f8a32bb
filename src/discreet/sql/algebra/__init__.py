"""Expressions, relations and rules over private rows, with kinds and intervals."""
