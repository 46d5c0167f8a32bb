"""Places on a map: areas, planar noise, smoothed maps, how far maps are apart."""
