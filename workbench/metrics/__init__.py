"""Metrics counted over many batches; public as `workbench.metric`."""
