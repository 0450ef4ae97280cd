"""Images resized, cut into patches, with entries moved between channels and pixels."""
