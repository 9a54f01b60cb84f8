"""Converts the YAML files of an agent engine (reference system 2) into a pipeline file."""
