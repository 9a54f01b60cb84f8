"""Models: scripts, recordings and planned faults that answer model calls."""
