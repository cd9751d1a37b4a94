"""What each command does; one module for each family, loaded when one of it is typed."""
