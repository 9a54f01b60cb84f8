"""Validation: flaws of files that could run. Pure checks of documents, each a generator."""
