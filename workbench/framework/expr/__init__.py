"""Element-wise bodies as expressions, and expressions as lists of steps."""
