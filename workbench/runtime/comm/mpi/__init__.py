"""Processes that MPI has started: what they exchange, on the memory that those of a machine share.

`group` is what others use, `devices` the communicator on it, `world` the group of all processes; `lending` gives out
groups that lie idle, `rings` and `clocks` are built of what a group can do. Beneath, along the way of a message:
`exchange` (what is started, in which order, what goes into slots and comes out of them) and `memory` (where the slots
are, who shares them).
"""
