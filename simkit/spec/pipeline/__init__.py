"""What a declarative pipeline says, as values."""
