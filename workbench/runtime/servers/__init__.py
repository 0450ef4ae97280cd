"""Messages between trainers and parameter servers: their form, and what carries them from one to the other."""
