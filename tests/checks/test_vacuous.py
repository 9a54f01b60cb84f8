"""RUN-03: a claim that denies what occurs nowhere proves nothing; the nearest that occurs does."""

from __future__ import annotations

import pytest

from simkit.core.errors import SourceError
from tests.checks.judging import MEALS, describe_findings


@pytest.mark.parametrize("key", ["asistant", "usr", "agnt"])
def test_a_channel_of_messages_has_the_keys_of_messages(key: str) -> None:
    with pytest.raises(SourceError) as caught:
        describe_findings(
            MEALS, f"state: {{messages: {{$not: {{$has: [{{{key}: {{$contains: pizza}}}}]}}}}}}"
        )

    assert caught.value.what == f"a message has no `{key}`, so this could never match"
