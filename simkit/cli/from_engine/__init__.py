"""Reference system 2's files (``docs/reference-systems.md``) read, and said again as a pipeline."""
