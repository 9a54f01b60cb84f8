"""Provider protocols: request bytes to context, reply to bytes or server-sent events. Pure."""
