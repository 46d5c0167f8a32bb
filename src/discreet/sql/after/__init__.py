"""What is computed from released values, where no private row is."""
