"""Scenario files, as values."""
