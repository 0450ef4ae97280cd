"""Rules of `ops.conv`."""
