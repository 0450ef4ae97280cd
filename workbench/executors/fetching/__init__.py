"""From values of the devices to what the user gets."""
