"""Mixed precision: ops in half precision where that is safe; public as `workbench.amp`."""
