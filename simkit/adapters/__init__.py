"""Drivers for pipelines that are code: one module a framework."""
