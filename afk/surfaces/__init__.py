"""How people and machines look in."""
