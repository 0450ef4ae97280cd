"""Softmax and cross entropy."""
