"""The analyst's SQL becomes a plan."""
