"""Implementation of ``simkit init``."""
