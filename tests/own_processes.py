"""Whether scenarios of code get processes of their own here: a mark for the tests of it."""

from __future__ import annotations

from typing import Final

import pytest

from simkit.session.workers import can_fork, is_traced

OWN_PROCESSES: Final = pytest.mark.skipif(
    is_traced() or not can_fork(),
    reason="all scenarios run in one process here: coverage or a debugger follows it",
)
