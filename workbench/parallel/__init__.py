"""Programs in several processes: how they are started, find each other and train together."""
