"""Trace → findings: claims and lints, pure."""
