"""The trace of a run: events, their store, and views of them."""
