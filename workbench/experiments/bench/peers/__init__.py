"""The rows of `workbench bench --table` in other libraries: programs for whatever Python has the library.

`python FILE SECONDS` measures and prints a line of JSON (`measure.py`). They import nothing of workbench.
"""
