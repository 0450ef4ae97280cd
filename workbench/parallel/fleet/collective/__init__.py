"""Fleets without servers: trainers exchange gradients, or parameters, among themselves."""
