"""Learning with privacy: DP-SGD and classical models."""
