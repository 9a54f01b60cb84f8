"""Exploration: conversations that nobody wrote, on a declared pipeline or on a user's code.

Models answer whatever their interface permits; what breaks a rule becomes the smallest scenario
file that shows it. From the bottom up: ``choices`` (numbers that decide), ``values`` (values of a
JSON Schema), ``interfaces`` (models and tools that choose), ``conversations`` (one run, and its
causes), ``search`` (Hypothesis), ``scenarios`` (files of what was found), ``subjects`` (what a name
stands for), ``campaigns`` (the one place that sets a search up).
"""
