"""Programs written for one process, rewritten for many: `DistributeTranspiler` of Paddle 1.x.

`server_mode` makes of a program one that pushes gradients to parameter servers and pulls parameters, and those of the
servers; `collective` puts all-reduces of the gradients, or of the parameters, into the program itself; `nccl2` leaves
them to `ParallelExecutor(num_trainers=…)`.
"""
