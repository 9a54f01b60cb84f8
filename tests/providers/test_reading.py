"""What every protocol reads in a request that has all parts: `golden/<protocol>-requests.txt`."""

from __future__ import annotations

from pathlib import Path

import msgspec
import pytest

from tests.golden import assert_file_is
from tests.providers.test_fuzz import CASES

GOLDEN = Path(__file__).parent / "golden"


@pytest.mark.golden
@pytest.mark.parametrize("name", CASES)
def test_all_parts_of_a_request_are_read(name: str) -> None:
    case = CASES[name]
    texts = []
    for request in case.requests():
        parsed = msgspec.json.encode(case.protocol.parse_request(request))
        texts.append(f"{request.url}\n{msgspec.json.format(parsed, indent=1).decode()}\n")

    assert_file_is(GOLDEN / f"{name}-requests.txt", "\n".join(dict.fromkeys(texts)))
