"""Parameter servers: what a server does, how trainers exchange gradients for parameters with it, and what carries that."""
