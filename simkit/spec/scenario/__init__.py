"""What a scenario file says, as values."""
