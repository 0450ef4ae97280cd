"""Which nodes of programs run by NumPy instead of compiled kernels, and what they cost (`workbench bench --coverage`).

covered.py    what such a program is             programs/   programs as users write them, and those of bench
measured.py   a program's nodes, with their times  reasons.py  why a node has no native form
"""
