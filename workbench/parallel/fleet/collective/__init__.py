"""Fleets without servers: trainers exchange gradients, or parameters, among themselves (F-1 … F-6)."""
