"""Parameter servers: what a server does, how trainers exchange gradients for parameters, and what carries that."""
