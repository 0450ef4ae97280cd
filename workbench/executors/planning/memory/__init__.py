"""Where every value of a plan lives, decided in stages, each of which adds to what the ones before it have decided.

buckets     what has to lie one after the other: the gradients of one update
layout      which results are written with other strides than row by row
aliases     which values only show another one's memory
in_place    which results are written over an input that nobody reads any more
storage     the pieces of memory that follow from these, and when each is needed
offsets     where each piece lies in its device's arena

A stage reads a `MemoryRequest` and the results before its own, and changes neither. `memory_plan` runs them all.
"""
