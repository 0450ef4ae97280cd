"""Layers with parameters: linear maps, convolutions, normalisations."""
