"""What is seen of steps that the ranks of a cluster make: told by each of them, joined for one page."""
