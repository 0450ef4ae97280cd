"""Dynamic mode: ops compute at once, and a tape of them is walked back for gradients.

From its own files upwards: what the others share (kinds of values, writes in place) · `tape` (recorded ops, the walk
back) · `tensor` · `dispatch` (an op applied to tensors) · `autograd` (what users call).
"""
