"""The base of all packages: errors, messages, redaction, text, random numbers."""
