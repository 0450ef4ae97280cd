"""Which memory the rows of a tape touch, declared once per kernel, beside none of the rules that write them.

Deliberately empty: import from the modules. `declare` tells how, `table` has them all.
"""
