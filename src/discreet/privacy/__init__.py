"""What a release costs, as data: losses, units, budgets and accountants."""
