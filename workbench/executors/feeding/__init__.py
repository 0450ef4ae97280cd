"""From what the user feeds to the arrays of each device."""
