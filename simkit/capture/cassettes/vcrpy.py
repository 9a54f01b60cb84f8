"""vcrpy's own layout, in every version of vcrpy.

It is imported where a file is written: importing it imports every HTTP client that is installed,
which takes longer than reading most cassettes. The parts that simkit uses are undocumented:
`simkit.core.compat` says which versions were tried.
"""

from __future__ import annotations

from collections.abc import Iterable
from importlib.util import find_spec
from typing import Any, Final, TypeAlias

from simkit.core.compat import Library
from simkit.providers.http import HttpRequest

Parts: TypeAlias = tuple[str, str, bytes, bytes]
"""An interaction as vcrpy replays it: method, URL and both bodies."""

_VCR: Final = Library("vcrpy")


class _AsData:
    """A serializer for `register_serializer` of vcrpy that leaves data as data."""

    @staticmethod
    def serialize(data: Any) -> Any:
        return data

    @staticmethod
    def deserialize(data: Any) -> Any:
        return data


def require() -> None:
    """Raise ModuleNotFoundError if vcrpy is missing, before anything is sent and lost.

    It is looked up and not imported, because a call that sends nothing does not need it.
    """
    if find_spec("vcr") is None:
        raise ModuleNotFoundError("No module named 'vcr'", name="vcr")


def layout(
    exchanges: Iterable[tuple[HttpRequest, dict[str, Any]]],
) -> tuple[list[dict[str, Any]], int]:
    """Return interactions in vcrpy's layout, and vcrpy's version number of it.

    A response is in the form of vcrpy's recorders: ``status``, ``headers``, ``body: {string}``.
    Bodies are texts if possible. Raise ValueError for a request that vcrpy cannot express.
    """
    request_class = _VCR.find("vcr.request:Request")
    requests, responses = [], []
    for request, response in exchanges:
        names = {name: value for name, value in reversed(request.headers)}
        headers = {name: names[name] for name, _ in request.headers}
        requests.append(request_class(request.method, request.url, request.body or None, headers))
        responses.append(response)
    serialize = _VCR.find("vcr.serialize:serialize")
    data: Any = serialize({"requests": requests, "responses": responses}, _AsData)
    return data["interactions"], data["version"]


def played(content: str, is_json: bool) -> list[Parts]:
    """Return the interactions that vcrpy replays from a file that simkit wrote."""
    serializer = _VCR.find(f"vcr.serializers:{'json' if is_json else 'yaml'}serializer")
    requests, responses, *_ = _VCR.find("vcr.serialize:deserialize")(content, serializer)
    return [
        (request.method, request.uri, request.body or b"", answered["body"]["string"])
        for request, answered in zip(requests, responses, strict=True)
    ]
