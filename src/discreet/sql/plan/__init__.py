"""From SQL to a priced plan; the plan in words, and verified."""
