"""Attacks on many answers and releases: composition, averages, reconstruction, intersection."""
