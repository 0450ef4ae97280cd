"""Groups of processes, and what they exchange: tensors, objects, messages."""
