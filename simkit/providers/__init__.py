"""Provider protocols: from request bytes to a context, from a reply to bytes or server-sent events.

Pure.
"""
