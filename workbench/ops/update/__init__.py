"""Parameter updates, and the clipping of gradients before them."""
