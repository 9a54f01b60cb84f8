"""Declared pipelines, as values."""
