"""Devices, scopes and storage. Knows arrays, not graphs."""
