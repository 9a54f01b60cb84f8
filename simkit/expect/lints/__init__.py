"""Invariants held on every run, without being asked: one family a file, one pass over the trace."""

from __future__ import annotations

from collections.abc import Iterator

from simkit.expect.lints.engine import Lint, run_lints

__all__ = ["Lint", "all_lints", "run_lints"]


def all_lints() -> Iterator[Lint]:
    """Yields a fresh instance of every lint; each keeps its own state over one trace."""
    yield from ()
