"""Tables of recorded runs, and their export."""
