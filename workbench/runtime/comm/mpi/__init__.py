"""Processes that MPI has started: what they exchange, on the memory that those of a machine share.

`group` is what others use, `devices` the communicator on it, `vote` how all of them decide together. Beneath:
`channel` (what has been started, in order), `rounds` (what it does), `messages` (from one process to another),
`peers` (whether they are there), `window` (the memory). Where there are several machines, `nodes`
says who is where, and `relay` keeps up copies of that memory between them.
"""
