"""Simulated CUDA devices: the same kernels and calls, executed on the host by rules stricter than the hardware's."""
