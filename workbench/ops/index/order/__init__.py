"""Order: sorted entries, what stands at a place among them, intervals that numbers fall into."""
