"""Attacks on records and networks without names: sparse matching, graph matching."""
