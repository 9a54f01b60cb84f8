"""Captured values: values that differ each time; a replayed response gets the current ones."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping

from simkit.capture.cassettes.encodings import with_body
from simkit.capture.cassettes.keys import Question
from simkit.providers.http import HttpResponse


class Rewriting:
    """The current values for recorded ones, as far as a session has sent them."""

    def __init__(self) -> None:
        self._now: dict[str, str] = {}

    def learn(self, recorded: Question, question: Question) -> None:
        """Pair the values of two requests that ask the same."""
        for name, values in recorded.captured.items():
            now = question.captured.get(name, ())
            self._now.update(zip(values, now, strict=False))

    def rewritten(self, response: HttpResponse) -> HttpResponse:
        """Return the response with recorded values replaced; a stream, event by event."""
        forms = dict(_forms(self._now))
        if not forms:
            return response
        # The longest first: a folder before its parent folder.
        known = sorted(forms, key=lambda form: (-len(form), form))
        pattern = re.compile(b"|".join(re.escape(form) for form in known))
        return with_body(response, pattern.sub(lambda match: forms[match[0]], response.body))


def _forms(now: Mapping[str, str]) -> Iterator[tuple[bytes, bytes]]:
    """Yield pairs of values as they appear in text, in JSON, and in JSON inside JSON."""
    for recorded, live in now.items():
        if recorded == live:
            # A value without a pair is kept as it is, so that a shorter value does not match inside
            # it.
            yield recorded.encode(), live.encode()
            continue
        for _ in range(3):
            yield recorded.encode(), live.encode()
            recorded, live = _escaped(recorded), _escaped(live)


def _escaped(text: str) -> str:
    return json.dumps(text, ensure_ascii=False)[1:-1]
