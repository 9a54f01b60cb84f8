"""The native driver: runs a declarative pipeline under virtual time."""
