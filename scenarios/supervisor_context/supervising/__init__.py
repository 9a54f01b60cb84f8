"""A supervisor that passes context, with the log records of its document."""
