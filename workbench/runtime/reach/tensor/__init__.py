"""Transposes and strided copies."""
