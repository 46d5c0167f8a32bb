"""From noisy reports back to the distribution of the true values."""
