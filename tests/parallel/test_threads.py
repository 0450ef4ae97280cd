"""Threads of the parallel executor: overlap that is really there, several executors at once, batches and scopes that
change between runs, and what an executor leaves behind."""
