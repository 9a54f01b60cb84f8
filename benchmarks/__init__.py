"""Benchmarks: simkit and its peers side by side, in CPU time, as ratios of medians.

The extra `bench` brings the peers. A peer that is missing, or cannot start with the pytest that is
installed, has a row in `items` and `collecting` that says so.
"""
