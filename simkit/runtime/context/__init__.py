"""Contexts: sections, history filters and windows, budgets, token counters."""
