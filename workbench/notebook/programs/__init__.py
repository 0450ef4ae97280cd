"""Programs built in cells: kept by name, built on each other, listed."""
