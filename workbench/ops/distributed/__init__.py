"""Ops between processes: collectives of transpiled programs, the groups they need, and the way to parameter servers."""
