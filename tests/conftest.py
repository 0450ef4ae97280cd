"""Fixtures and rules every test shares."""

import os

# The suite measures results, never the speed of a machine it does not own: one BLAS thread, and
# tests that want several ask for them.
os.environ.setdefault("OPENBLAS_NUM_THREADS", "1")
# No display: pictures go to memory.
os.environ.setdefault("MPLBACKEND", "agg")
