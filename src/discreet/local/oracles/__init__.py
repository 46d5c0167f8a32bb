"""Randomizers that run on a device, each with the estimator that fits it."""
