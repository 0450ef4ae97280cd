"""What parameters are filled with."""
