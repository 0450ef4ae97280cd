"""What stands in the notebook: the page, what it is sent, and what is heard from it."""
