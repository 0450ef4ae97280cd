"""CUDA C++ made from the declarations the kernels of CPUs are made from: source text, geometry, arguments."""
