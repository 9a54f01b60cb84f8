"""Plugins that others brought along, left out of the runs of pytest that tests start.

What they do beside simkit is tested in tests/compat/, where it is wanted. Elsewhere they shuffle
tests, add fixtures, and cost more than the run: langsmith's alone two seconds each time.
"""

from __future__ import annotations

from typing import Final

OTHERS: Final = (
    "anyio", "asyncio", "faker", "hypothesispytest", "langsmith_plugin", "randomly", "recording",
)  # fmt: skip
OTHERS_OFF: Final = " ".join(f"-p no:{name}" for name in OTHERS)
"""For PYTEST_ADDOPTS."""
