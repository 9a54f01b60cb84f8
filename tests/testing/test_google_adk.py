"""The adapter for the Agent Development Kit keeps the rules of docs/how-to/adapters.md."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any, ClassVar

import pytest

pytest.importorskip(
    "google.adk", reason="google-adk is not installed: its tests have an environment of their own"
)

from simkit.testing import AdapterConformance

pytestmark = [
    # The ADK's workflow agents are said to make way for its graphs, one day.
    pytest.mark.filterwarnings("ignore:.* is deprecated in favor of Workflow:DeprecationWarning")
]


class TestGoogleAdk(AdapterConformance):
    adapter = "google.adk"
    applications = "tests.testing.google_adk_apps"
    not_supported: ClassVar[Mapping[str, str]] = {
        "reducer": "a session's state has no reducers: values are replaced",
        "output": "`set_model_response` is a tool of the ADK's, and reported as one",
    }
    # What a tool does with control is not known before it does.
    replies: ClassVar[Mapping[str, Mapping[str, Any]]] = {
        "handoff": {"front": {"calls": [{"pass_on": {"topic": "refunds"}}]}, "expert": "Done."}
    }
