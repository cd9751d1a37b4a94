"""The outside world, one module per neighbour."""
