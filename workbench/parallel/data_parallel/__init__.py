"""Models trained by several processes: gradients averaged while they are computed."""
