"""A server at work: what it holds, whose gradients it takes, its checkpoint."""
