"""Layouts of other recorders, rearranged as vcrpy's: for `simkit cassettes import` and for scans.

They are the list of dictionaries ``requests`` and ``responses`` of langchain-tests, pydantic-ai's
``parsed_body`` (a JSON value in place of a text), go-vcr's, and what vcrpy before 6 wrote for httpx
(``content`` and ``status_code``). Replay reads none of them.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any, Final

from simkit.capture.cassettes.vcrpy_layout import VERSION, Misfit, json_text

BEFORE_1_0: Final = "vcrpy before 1.0"
_OLD: Final = ("protocol", "host", "port", "path")
"""The keys of a URL in the layout of vcrpy before 1.0."""


_KEYS: Final = {"parsed_body": "pydantic-ai", "status_code": "vcrpy before 6", "url": "go-vcr"}
"""Keys of requests and responses that vcrpy does not write, and their recorders."""


def recorder_of(tree: Any) -> str:
    """Return the name of the recorder that writes such data; empty for vcrpy, and for no layout."""
    if isinstance(tree, list):
        return BEFORE_1_0 if any(part.keys() >= {*_OLD} for part in _parts_of(tree)) else ""
    if not isinstance(tree, dict):
        return ""
    if "requests" in tree and "responses" in tree:
        return "langchain-tests"
    keys = {key for part in _parts_of(tree.get("interactions")) for key in part}
    return next((recorder for key, recorder in _KEYS.items() if key in keys), "")


def _parts_of(interactions: Any) -> Iterator[dict[Any, Any]]:
    """Yield the requests and responses among interactions, in whatever layout."""
    for item in interactions if isinstance(interactions, list) else ():
        if isinstance(item, dict):
            parts = (item.get("request"), item.get("response"))
            yield from (part for part in parts if isinstance(part, dict))


def advice(recorder: str, path: object) -> str:
    """Return what a user does with a file of another recorder."""
    if recorder == BEFORE_1_0:
        return f"`python -m vcr.migration {path}` rewrites it in today's layout"
    return f"`simkit cassettes import {path} NEW.yaml` writes one that is"


def in_vcrpy_layout(tree: Any) -> Any:
    """Return data in vcrpy's layout, without its errors; raise Misfit where that is impossible."""
    recorder = recorder_of(tree)
    if recorder in ("", BEFORE_1_0):
        return tree
    if recorder == "langchain-tests":
        requests, responses = tree["requests"], tree["responses"]
        if not isinstance(requests, list) or not isinstance(responses, list):
            raise Misfit((), "`requests` and `responses` must be lists")
        if len(requests) != len(responses):
            problem = f"there are {len(requests)} requests, but {len(responses)} responses"
            raise Misfit(("responses",), problem)
        pairs = zip(requests, responses, strict=True)
        items = [{"request": request, "response": response} for request, response in pairs]
    else:
        items = tree["interactions"]
    rearranged = [
        {key: _part(value, ("interactions", number, key)) for key, value in item.items()}
        if isinstance(item, dict)
        else item
        for number, item in enumerate(items)
    ]
    return {"interactions": rearranged, "version": VERSION}


def _part(data: Any, at: tuple[str | int, ...]) -> Any:
    """Return a request or a response in vcrpy's layout."""
    if not isinstance(data, dict):
        return data
    part = dict(data)
    if "parsed_body" in part:
        part["body"] = {"string": json_text(part.pop("parsed_body"), (*at, "parsed_body"))}
    for key, other in (("body", "content"), ("uri", "url")):
        if key not in part and other in part:
            part[key] = part[other]
    for key in ("status_code", "code"):
        if key in part:
            part["status"] = {"code": part[key]}
    if isinstance(part.get("headers"), list):
        part["headers"] = _by_name(part["headers"], (*at, "headers"))
    return part


def _by_name(pairs: list[Any], at: tuple[str | int, ...]) -> dict[Any, list[Any]]:
    headers: dict[Any, list[Any]] = {}
    for number, pair in enumerate(pairs):
        if not isinstance(pair, list) or len(pair) != 2 or not isinstance(pair[0], str | bytes):
            raise Misfit((*at, number), "a header is a name and a value")
        headers.setdefault(pair[0], []).append(pair[1])
    return headers
