"""A trainer's side: gradients pushed, parameters pulled, servers asked to save what they hold."""
