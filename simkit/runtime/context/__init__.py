"""What an agent reads: sections, history filters and windows, budgets, token counters."""
