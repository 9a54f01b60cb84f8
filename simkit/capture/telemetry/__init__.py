"""Traces that other tools exported: their formats, and what of a conversation they tell. Pure."""
