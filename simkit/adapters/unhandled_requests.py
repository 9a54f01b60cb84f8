"""Unhandled requests: the error about a request that is no model call and that nothing answers."""

from __future__ import annotations

import sys
from types import FrameType
from typing import Final
from urllib.parse import urlsplit

from simkit.capture.http.places import place, user_frame
from simkit.core.errors import NetworkRefused
from simkit.providers.http import HttpRequest
from simkit.providers.protocols import PROTOCOLS
from simkit.providers.unsupported import unspoken

_UNKNOWN: Final = "module:function"


def refusal_of(request: HttpRequest) -> NetworkRefused:
    """Return the refusal: the request, its place in user code, and possible replacements."""
    at = sent_at()
    request_text = f"{request.method} {request.url}"
    host = request.url.partition("://")[2].partition("/")[0]
    if "embed" in urlsplit(request.url).path.rpartition("/")[2].lower():
        function = _function(user_frame(sys._getframe(1), "", nearest=True))
        tool = function.rpartition(":")[2] if function != _UNKNOWN else "embed"
        return NetworkRefused(
            f"the pipeline asked for embeddings, {request_text}{at}: simkit answers model calls "
            "only, and the network is refused.\n"
            f"Let the function that returns them be stood in for: `app: {{tools: {{{tool}: "
            f"{function}}}}}` and `tool_results: {{{tool}: {{returns: [0.1, 0.2]}}}}`. Or put a "
            "fake in its place under `app: {setup: module:function}`, or record it with a "
            "`cassette`.",
            host,
            None,
        )
    interface = unspoken(request)
    if interface:
        return NetworkRefused(
            f"the pipeline sent {request_text}{at}: that is {interface}, which simkit does not "
            "speak, and "
            f"the network is refused.\nSpoken are {', '.join(PROTOCOLS)}. What others answer can "
            "be recorded and replayed with a `cassette`; or put a fake in the client's place under "
            "`app: {setup: module:function}`.",
            host,
            None,
        )
    return NetworkRefused(
        f"the pipeline sent {request_text}, which is no model call that simkit knows, and the "
        f"network is refused{at}.\n"
        "Stub the tool with `tool_results` and `app: {tools: …}`, or allow the host: "
        f"`allow_hosts: [{host}]`.",
        host,
        None,
    )


def sent_at() -> str:
    """Return the place in user code that sends the current request, if it is on the stack."""
    frame = user_frame(sys._getframe(1), "", nearest=True)
    return f", at {place(frame)}" if frame is not None else ""


def _function(frame: FrameType | None) -> str:
    """Return ``module:function`` of the calling user code, if a module holds the function."""
    if frame is not None:
        name, module = frame.f_code.co_name, frame.f_globals.get("__name__")
        value = frame.f_globals.get(name)
        if module and getattr(value, "__code__", None) is frame.f_code:
            return f"{module}:{name}"
    return _UNKNOWN
