"""The language: what a value is, expressions, the op record, programs, programs as text."""
