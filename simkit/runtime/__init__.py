"""The native driver: runs a declared pipeline under virtual time."""
