"""The memory that processes share, and who they are.

`window` is the memory, `slots` the way into it, `peers` whether the others are there, `leftovers` what killed jobs have
left. Where there are several machines, `nodes` says who is where, and `relay` keeps up copies between them.
"""
