"""Values that are others each time: what was recorded is served as what is true now.

A rule finds an order number, a date or a folder in what is asked. In a key it counts only as the
first, the second, … of its kind. So when a recording answers, its values and those of the request
that is asked stand side by side, and the response says the latter from then on.
"""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from simkit.capture.cassettes.encodings import with_body
from simkit.capture.cassettes.keys import Question
from simkit.providers.http import HttpResponse


class Rewriting:
    """What recorded values are now, as far as a session has asked."""

    def __init__(self) -> None:
        self._now: dict[str, str] = {}

    def learn(self, recorded: Question, question: Question) -> None:
        """Take in two requests that ask the same."""
        for name, values in recorded.captured.items():
            now = question.captured.get(name, ())
            self._now.update(zip(values, now, strict=False))

    def rewritten(self, response: HttpResponse) -> HttpResponse:
        """Return the response with recorded values replaced; a stream's, event by event."""
        forms = dict(_forms(self._now))
        if not forms:
            return response
        # The longest first: a folder before the folder around it.
        known = sorted(forms, key=lambda form: (-len(form), form))
        pattern = re.compile(b"|".join(re.escape(form) for form in known))
        return with_body(response, pattern.sub(lambda match: forms[match[0]], response.body))


def _forms(now: Mapping[str, str]) -> Iterator[tuple[bytes, bytes]]:
    """Yield values as they stand in a text, in JSON, and in JSON inside JSON."""
    for recorded, live in now.items():
        if recorded == live:
            # It still stands between its neighbours: a shorter value must not be found in it.
            yield recorded.encode(), live.encode()
            continue
        for _ in range(3):
            yield recorded.encode(), live.encode()
            recorded, live = _escaped(recorded), _escaped(live)


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
