"""GPUs: CUDA behind one narrow interface (`driver`), offered by CuPy and NCCL and by simulated devices."""
