"""Exploration: conversations that nobody wrote, on a declared pipeline or on a user's code.

Models answer whatever their interface permits; what breaks a rule becomes the smallest scenario
file that shows it. From the bottom up: ``choices`` (numbers that decide), ``values`` (values of a
JSON Schema), ``interfaces`` (models and tools that choose), ``conversations`` (one run, and its
causes), ``search`` (Hypothesis), ``found`` (scenario files).
"""
