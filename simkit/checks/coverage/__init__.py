"""Coverage: what scenarios make a pipeline do, of all that it can do.

A pipeline's file, or for code the metadata in its traces, gives the items that could happen, with
their places; the traces give those that did.
"""

from simkit.checks.coverage.items import KINDS
from simkit.checks.coverage.measuring import CoverageReport, Measurement, PlacedItem, coverage_of
