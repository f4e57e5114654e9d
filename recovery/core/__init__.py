"""The pure layer: no clock, no randomness, no I/O; everything is passed in."""
