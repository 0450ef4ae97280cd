"""What a step runs: found for its fetches and the shapes of its feed, or made."""
