"""The engine: steps one after the other, each on its way from feed to fetch."""
