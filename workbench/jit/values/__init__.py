"""The values a recorded function works on: arguments, what stands for tensors, what it reads from outside."""
