"""The *tape* lowering of a plan: rows of numbers that compiled kernels work through (design section 4).

    writer.py       writes a thread's tape, row by row of the plan      segment.py   runs a piece of it as one call
    rules.py        which kernels an op takes; `native` notes a rule    vector_code.py   element-wise work as one row
    products.py, losses.py, updates.py …   rules by kind of op          table.py     all rules
"""
