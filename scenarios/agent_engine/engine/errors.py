"""What ends a task."""

from __future__ import annotations


class InvalidInput(ValueError):
    """A node is given what it cannot take."""


class NoRoute(RuntimeError):
    """A decision leads nowhere."""
