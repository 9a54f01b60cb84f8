"""Diffs of two runs: pure, over their views.

Contents are compared, not ids: a new message in the middle changes the numbers of all later ones,
and nothing else.
"""
