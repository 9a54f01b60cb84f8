"""What a run leaves: events, their store, and what is read from them."""
