"""An op applied to tensors: prepared once per signature, computed at once, recorded if a gradient may be wanted."""
