"""The adapter for PydanticAI keeps the rules of docs/how-to/adapters.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

pytest.importorskip("pydantic_ai", reason="pydantic-ai-slim is not installed")

from simkit.testing import AdapterConformance


@pytest.mark.slow
class TestPydanticAI(AdapterConformance):
    adapter = "pydantic_ai"
    applications = "tests.testing.pydantic_ai_apps"
    not_supported: ClassVar[Mapping[str, str]] = {
        "reducer": "dependencies have no reducers: values are replaced"
    }
    # What an output function calls is not known before it does.
    replies: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "handoff": {"front": {"calls": [{"pass_on": {"topic": "refunds"}}]}, "expert": "Done."},
        "filter": {
            "front": [{"calls": [{"look_up": {"word": "seats"}}]}, {"calls": [{"pass_on": {}}]}],
            "expert": "Done.",
        },
    }
