"""What is seen of an engine: its graph, sampled steps, memory and values, as messages for the page."""
