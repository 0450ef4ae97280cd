"""Layers: parts of a model that own parameters (Paddle 2.x's `paddle.nn` classes).

A layer's `forward` calls public functions and nothing else, so one class serves both modes: in dynamic mode it
computes, in static mode it builds ops into the current program.
"""
