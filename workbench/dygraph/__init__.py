"""Dynamic mode: ops compute at once. No tape yet, so no gradients."""
