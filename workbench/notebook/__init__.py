"""What the magics do: programs built in cells, kept under names of the user's namespace. Needs IPython."""
