"""What a value is: dtype, shape and kind, place, the constants a program may hold, random streams, rows."""
