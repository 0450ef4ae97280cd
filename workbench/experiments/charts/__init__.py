"""Charts of recorded runs, and runs side by side."""
