"""Fleets: trainers, alone or with parameter servers, that run one program together, in Paddle 1.x's and 2.x's form."""
