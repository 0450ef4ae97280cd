"""The definition of correct: programs in order, op by op, on NumPy; imports nothing else of executors."""
