"""Looking into steps: node by node, device against device, for the first NaN."""
