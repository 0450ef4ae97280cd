"""The language: Program, Block, Variable, dtypes, places, names, the op record and `apply`."""
