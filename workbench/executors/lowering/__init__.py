"""From a plan to calls: bound to memory, as NumPy calls (`numpy`) or rows of compiled kernels (`tape`)."""
