"""Steps made from cells: trained and watched live, profiled, gone through node by node."""
