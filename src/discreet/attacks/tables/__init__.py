"""Attacks on released tables: linkage, inference, linkability, singling out."""
