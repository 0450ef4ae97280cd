"""The rows of `workbench bench --table`: programs as people bring them, beside other libraries.

A row is declared in a file of this folder, which is found by where it lies: `ROWS` is a tuple of `BenchRow`s. What
other libraries do in its place is in `peers/`.
"""
