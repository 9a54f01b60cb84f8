"""Matchers for vcrpy: model requests by what they mean, all others as vcrpy does.

vcrpy compares a request with one recording after the other, and asks its matchers for a text each
time. So what a request asks is worked out once, two are compared by their keys, and differences are
told only where somebody reads them: of the first recording that is compared, and of the nearest
when the same question comes again after nothing matched it, as it does for vcrpy's error.
"""

from __future__ import annotations

import threading
from collections import OrderedDict
from collections.abc import Iterator
from typing import Final
from weakref import ReferenceType, ref

from vcr import matchers
from vcr.request import Request

from simkit.capture.cassettes import Keying
from simkit.capture.cassettes.error_messages import difference_lines
from simkit.capture.cassettes.missing import differences
from simkit.capture.cassettes.nearest import nearest_of
from simkit.vcr.requests import Knowing, Known

PLAIN: Final = ("method", "scheme", "host", "port", "path", "query")
"""What vcrpy matches requests on unless it is told otherwise."""
_SEARCHES_MAX: Final = 1_024
"""Questions of which it is remembered whether something matched."""


class Matching:
    """The matchers of one configuration; any number of threads may ask."""

    def __init__(self, keying: Keying) -> None:
        self._known = Knowing(keying)
        self._searches: OrderedDict[str, _Search] = OrderedDict()
        self._lock = threading.RLock()  # Finalizers may come back here.

    def matches_model_request(self, asked: Request, recorded: Request) -> None:
        """Raises AssertionError, with what differs, unless both requests ask the same.

        A model call asks what its body says, whatever the order of its keys, its headers and its
        host. Requests that are none are compared as vcrpy does by default: without their bodies.
        """
        search = self._search(asked)
        if self._is_same(asked, recorded):
            search.is_found = True
            return
        is_first = not search.missed
        search.missed.append(ref(recorded))
        nearest = search.nearest
        is_read = nearest() is recorded if nearest is not None else is_first
        raise AssertionError(self._told(asked, recorded) if is_read else "it asks something else")

    def is_nearest_recording(self, asked: Request, recorded: Request) -> bool:
        """Whether no other recording is known to be more like a request that none answers.

        vcrpy's error shows the recordings for which most matchers hold: with this one, the nearest.
        It decides no match: where one recording answers, it holds for that one.
        """
        nearest = self._search(asked).nearest
        return nearest is None or nearest() is recorded or self._is_same(asked, recorded)

    def _search(self, asked: Request) -> _Search:
        """Returns the look through recordings that is made for a request."""
        known = self._known(asked)
        with self._lock:
            before = self._searches.get(known.key)
            if before is not None and before.asked() is asked:
                return before
            search = _Search(asked, None if before is None else self._nearest(known, before))
            self._searches[known.key] = search
            self._searches.move_to_end(known.key)
            while len(self._searches) > _SEARCHES_MAX:
                self._searches.popitem(last=False)
            return search

    def _nearest(self, known: Known, before: _Search) -> ReferenceType[Request] | None:
        """Returns the nearest of the recordings that did not match, if none did."""
        if before.is_found or not known.is_model_call:
            return None
        missed = [request for found in before.missed if (request := found()) is not None]
        place = nearest_of(known.question, [self._known(request).question for request in missed])
        return None if place is None else ref(missed[place])

    def _is_same(self, asked: Request, recorded: Request) -> bool:
        one, other = self._known(recorded), self._known(asked)
        if one.is_model_call or other.is_model_call:
            return one.is_model_call and other.is_model_call and one.key == other.key
        return not any(_plain_differences(asked, recorded))

    def _told(self, asked: Request, recorded: Request) -> str:
        one, other = self._known(recorded), self._known(asked)
        if not one.is_model_call and not other.is_model_call:
            return "\n".join(_plain_differences(asked, recorded))
        found = differences((one.request, one.question), (other.request, other.question))
        return "\n".join(["- recorded, + asked now", *difference_lines(*found)])


class _Search:
    """One look through a cassette for what answers a request."""

    def __init__(self, asked: Request, nearest: ReferenceType[Request] | None) -> None:
        self.asked = ref(asked)
        self.nearest = nearest
        """The nearest recording, if the same was asked before and nothing answered it."""
        self.missed: list[ReferenceType[Request]] = []
        self.is_found = False


def _plain_differences(asked: Request, recorded: Request) -> Iterator[str]:
    for name in PLAIN:
        try:
            getattr(matchers, name)(asked, recorded)
        except AssertionError as error:
            yield f"{name}: {error}"
