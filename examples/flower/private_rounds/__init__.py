"""Private rounds among three hospitals, as a Flower app."""
