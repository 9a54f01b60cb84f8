"""Invariants checked on every run, without a claim: one family a file, one pass over the trace.

Each event is added to the facts that lints share, and then read by the lints that asked for its
kind. All modules of this package are imported, which registers their lints.
"""

from __future__ import annotations

from importlib import import_module
from pkgutil import iter_modules

from simkit.checks.lints.facts import LintRunner as LintRunner

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
