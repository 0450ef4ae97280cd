"""Who looks at a step while it runs: clocks, NaN searches, observers; and what is kept for them."""
