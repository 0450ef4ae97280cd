"""Several devices against one: the same step to rounding, and the same bits as the split done by hand.

The reference is the plain `static.Executor`: on the whole batch, or on each device's rows with the gradients then added
up in the order of the devices.
"""
