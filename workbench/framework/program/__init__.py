"""Program, Block, Operator, Variable; the recorder that appends to them; copies, checks, pruning."""
