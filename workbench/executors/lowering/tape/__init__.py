"""The *tape* lowering of a plan: rows of numbers that compiled kernels work through (design section 4).

registry.py     which rule an op's rows are written by              table.py         all rules
writer.py       writes a thread's tape, row by row of the plan      segment.py       runs a piece of it as one call
rules.py        what rules are written with                         vector_code.py   element-wise work as one row
declared.py     ops that declare the row of their kernel            rows.py          row programs
math/elementwise.py, math/products.py …    rules by kind of op
"""
