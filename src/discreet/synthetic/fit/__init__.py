"""Models fitted to noisy marginals, and rows drawn from them: post-processing that reads no private row."""
