"""Numbers that depend on sizes nobody knows yet: planning and lowering compute with them as with whole numbers.

unknowns      what they depend on
polynomials   how they are written
size          what can be done with them, and what was decided about them
formulas      what they are for given sizes, and whether what was decided is right for these

    sizes = Sizes()
    n = sizes.unknown(40)          # 40 is the example the plan is made with
    rows = 8 * n                   # a polynomial, 8 n
    if rows > 64: ...              # decided as the example has it, and noted: "8 n - 65 >= 0"
    Formulas(sizes, [rows, n * n])([50])  # [400, 2500]

What is decided by comparing goes by the example; unless it is so for all sizes, it is noted as a condition. A number
that leaves for code that takes nothing but whole numbers becomes its example, and that it is this one is a condition,
too. So everything found out is right for other sizes, as long as the conditions hold for them.
"""
