"""Findings and traces → text and JSON. One writer a file; nothing here runs or judges anything."""
