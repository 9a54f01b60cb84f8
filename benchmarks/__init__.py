"""Benchmarks: simkit and its peers side by side, in CPU time, as ratios of medians."""
