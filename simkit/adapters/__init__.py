"""Drivers for pipelines that are somebody's own code: one module a framework."""
