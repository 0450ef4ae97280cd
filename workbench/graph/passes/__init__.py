"""Passes: small objects that rewrite a graph. `pipeline.default_passes` is the list of them."""

from workbench.graph.passes.pipeline import EXACT, Pass, as_pass, default_passes, run_passes

__all__ = ["EXACT", "Pass", "as_pass", "default_passes", "run_passes"]
