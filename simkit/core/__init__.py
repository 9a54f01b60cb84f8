"""What everything stands on: errors, messages, redaction, text, chance."""
