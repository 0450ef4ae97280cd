"""All that a dashboard knows and may be told, without a widget."""
