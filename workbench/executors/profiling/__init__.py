"""Where the time of steps goes: tables and traces."""
