"""Gradients of programs: `append_backward`, `gradients`."""

from workbench.autodiff.backward import append_backward, gradients

__all__ = ["append_backward", "gradients"]
