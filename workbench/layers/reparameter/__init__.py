"""Parameters seen in another way: as one vector, by their gradients' norms, as a direction and a length."""
