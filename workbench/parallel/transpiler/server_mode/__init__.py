"""Parameter-server mode: the trainers' program and the servers' (T-1 … T-12)."""
