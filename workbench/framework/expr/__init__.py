"""Element-wise bodies as expressions, and expressions as prebound NumPy calls."""
