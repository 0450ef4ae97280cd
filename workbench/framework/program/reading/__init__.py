"""What follows from a program: whether it is well formed, what it reads and writes, what a run needs of it."""
