"""Saving and loading: files (`files`), nested objects (`objects`), programs with values (`program_files`).

Nothing is imported here: reading a file needs neither executors nor programs.
"""
