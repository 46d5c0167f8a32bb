"""The SQL that reaches private rows, and the noise that is added to what it gives."""
