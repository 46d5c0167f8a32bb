"""DP-SGD: per-example gradients clipped and summed exactly, noise on the same grid, steps."""
