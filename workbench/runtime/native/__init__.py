"""The tape: a step as a table of numbers, walked by compiled code (design section 4).

tape.py     writes the table         image.py    brings compiled kernels into the process
blas.py     finds sgemm              build.py    compiles them, in a process of its own
words.py    the numbers both sides agree on
"""
