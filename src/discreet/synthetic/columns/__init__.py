"""Columns as codes and back, and public rules about them: fixed before any row is read."""
