"""From a program to the graph of one step on several devices. Knows programs and strategies, no arrays."""
