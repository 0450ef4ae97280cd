"""Native kernels, written in Python for numba. Only the compiling process imports them (`runtime.native.build`)."""
