"""Branches and loops that follow values of tensors, as `static.nn.cond` and `static.nn.while_loop`."""
