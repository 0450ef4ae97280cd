"""Row programs: bodies with reductions, from which both the NumPy form and the native kernels of an op are made."""
