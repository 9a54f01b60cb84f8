"""One scenario's run: the conversation, its processes, `simulate()` and `Simulation`."""
