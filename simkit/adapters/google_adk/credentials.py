"""Google's credentials, which are nobody's while a scenario runs: Vertex clients ask for them."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable, Iterator
from typing import Any, Final

import google.auth
from google.oauth2.credentials import Credentials

from simkit.adapters.environment import DUMMY_KEY
from simkit.capture.http.installing import Replacement, Row

_credentials: Final[Any] = Credentials
_KEY: Final = "GOOGLE_API_KEY"
_PROJECT: Final = "GOOGLE_CLOUD_PROJECT"


def nobodys(is_heard: Callable[[], bool]) -> Iterator[Row]:
    """Yields what stands for the machine's credentials, where its keys are dummies as well."""

    def wrapper(before: Replacement) -> Replacement:
        @functools.wraps(before)
        def default(*args: Any, **kwargs: Any) -> Any:
            if not is_heard() or os.environ.get(_KEY) != DUMMY_KEY:
                return before(*args, **kwargs)
            return _credentials(DUMMY_KEY), os.environ.get(_PROJECT) or DUMMY_KEY

        return default

    yield google.auth, "default", wrapper
