"""Role makers: which of the processes of a fleet this one is, a trainer or a server, and who the others are."""
