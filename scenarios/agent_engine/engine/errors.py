"""What ends a task, or a call."""

from __future__ import annotations


class InvalidInput(ValueError):
    """A node is given what it cannot take."""


class NoRoute(RuntimeError):
    """A decision leads nowhere."""


class UnfitResult(ValueError):
    """A tool returns what it does not promise."""
