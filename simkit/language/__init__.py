"""The small languages inside YAML: positions, paths, references, matchers, JSON Schema."""
