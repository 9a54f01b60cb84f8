"""Scenarios of other people's examples are skipped, loudly, where those were not brought here."""

from __future__ import annotations

from collections.abc import Sequence

import pytest

from tests.upstream import missing

collect_ignore = ["upstream"]
"""Other people's programs have tests of their own."""
EXAMPLES = {"agents_upstream": "openai_agents", "pydantic_ai_upstream": "pydantic_ai"}


def pytest_collection_modifyitems(items: Sequence[pytest.Item]) -> None:
    """Marks what would need examples that are not here."""
    for item in items:
        framework = EXAMPLES.get(item.path.name.partition(".")[0])
        reason = missing(framework) if framework is not None else ""
        if reason:
            item.add_marker(pytest.mark.skip(reason=reason))
