"""Recurrent layers: cells, what runs a cell over a sequence, and stacks of them."""
