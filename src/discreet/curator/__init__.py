"""The gate: private rows and the budget meet only here."""
