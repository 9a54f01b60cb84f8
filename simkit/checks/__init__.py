"""Checks: from a trace to findings, by claims and lints. Pure."""
