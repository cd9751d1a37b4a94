"""Text to values and back, one module a format; no I/O."""
