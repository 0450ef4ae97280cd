"""Ops that run blocks of operators."""
