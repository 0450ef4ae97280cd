"""The language: what a value is, expressions, the op record and `apply`, programs, programs as text."""
