"""Replaying a cassette beside vcrpy, bodies matched: looking up, and, apart from that, loading."""

from __future__ import annotations

import json
import tempfile
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

from benchmarks.graph import TEXT
from benchmarks.measuring import medians
from simkit.capture.cassettes import Cassette, Interaction, Keying, Player, encoded, load
from simkit.core.redact import Redactor
from simkit.providers.http import HttpRequest, HttpResponse

SIZES = (10, 5_000)
LOADED = 1_000
ASKED = 10
"""Lookups in a round; vcrpy makes one in a large cassette, because it takes about a second."""
URL = "https://api.openai.com/v1/chat/completions"
JSON = (("content-type", "application/json"),)
MATCH_ON = ("method", "scheme", "host", "port", "path", "query", "body")


def rows(rounds: int) -> list[list[object]]:
    """Returns lookups per second in a small and a large cassette, and what loading takes."""
    with tempfile.TemporaryDirectory() as folder:
        return [*_lookups(Path(folder), rounds), *_loading(Path(folder), rounds)]


def _lookups(folder: Path, rounds: int) -> Iterator[list[object]]:
    speeds: dict[tuple[str, int], float] = {}
    for size in SIZES:
        file = _file(folder / f"{size}.yaml", size)
        asked = ASKED if size == SIZES[0] else 1
        subjects = {
            "simkit": _simkit(file, size, rounds),
            "vcrpy": _vcrpy(file, size, rounds, asked),
        }
        times = medians(subjects, rounds)
        speeds["simkit", size] = ASKED / times["simkit"]
        speeds["vcrpy", size] = asked / times["vcrpy"]
    for (name, size), speed in speeds.items():
        ratio = f"{speeds['simkit', size] / speed:.0f}×"
        yield [f"{size} interactions", name, f"{speed:.0f} lookups/s", ratio]


def _simkit(file: Path, size: int, rounds: int) -> Callable[[], object]:
    """Returns a round of lookups, spread over the cassette, in a player made beforehand."""
    cassette, keying = load(file), Keying(Redactor({}))
    is_small = size == SIZES[0]
    players = iter([Player(cassette, keying) for _ in range(rounds if is_small else 1)] * rounds)
    numbers = _spread(size, rounds)

    def ask() -> None:
        player = next(players)
        for _ in range(ASKED):
            player.take("", 1, _request(next(numbers)))

    return ask


def _vcrpy(file: Path, size: int, rounds: int, asked: int) -> Callable[[], object]:
    """Returns the same with vcrpy's own cassette, asked as its patched clients ask it."""
    from vcr.cassette import Cassette as Peer
    from vcr.config import VCR
    from vcr.request import Request

    # Its cassette takes the functions that its configuration names.
    matchers = VCR()._get_matchers(MATCH_ON)

    def loaded() -> Any:
        return Peer.load(path=str(file), record_mode="none", match_on=matchers)

    is_small = size == SIZES[0]
    peers = iter([loaded() for _ in range(rounds if is_small else 1)] * rounds)
    numbers = _spread(size, rounds) if is_small else iter(range(size // 2, size))

    def ask() -> None:
        peer = next(peers)
        for _ in range(asked):
            request = _request(next(numbers))
            known = Request("POST", URL, request.body, dict(JSON))
            assert peer.can_play_response_for(known)
            peer.play_response(known)

    return ask


def _spread(size: int, rounds: int) -> Iterator[int]:
    """Yields places all over a cassette; each once where it is large enough."""
    for place in range(rounds * ASKED):
        yield place * max(size // (rounds * ASKED), 1) % size


def _loading(folder: Path, rounds: int) -> Iterator[list[object]]:
    from vcr.cassette import Cassette as Peer
    from vcr.serializers import jsonserializer, yamlserializer

    keying = Keying(Redactor({}))
    for suffix, serializer in (("yaml", yamlserializer), ("json", jsonserializer)):
        file = _file(folder / f"loaded.{suffix}", LOADED)

        def ours(file: Path = file) -> object:
            return load(file)

        def keyed(file: Path = file) -> object:
            return Player(load(file), keying)

        def theirs(file: Path = file, serializer: Any = serializer) -> object:
            return Peer.load(path=str(file), serializer=serializer, record_mode="none")

        times = medians({"simkit": ours, "simkit, with its keys": keyed, "vcrpy": theirs}, rounds)
        for name, seconds in times.items():
            ratio = f"{seconds / times['simkit']:.1f}×"
            yield [f"load {LOADED} as {suffix}", name, f"{seconds * 1000:.0f} ms", ratio]


def _file(path: Path, size: int) -> Path:
    items = (
        Interaction(request=_request(number), response=HttpResponse(200, JSON, (_ANSWER,)))
        for number in range(size)
    )
    path.write_bytes(encoded(Cassette(path, tuple(items))))
    return path


def _request(number: int) -> HttpRequest:
    """About 1 KB: two messages and a tool."""
    parameters = {"type": "object", "properties": {"order": {"type": "string"}}}
    tool = {"name": "price", "description": TEXT * 2, "parameters": parameters}
    messages = [
        {"role": "system", "content": TEXT * 4},
        {"role": "user", "content": f"{number}: {TEXT * 4}"},
    ]
    body = {
        "model": "gpt-5", "messages": messages, "tools": [{"type": "function", "function": tool}]
    }  # fmt: skip
    return HttpRequest("POST", URL, JSON, json.dumps(body).encode())


_ANSWER = json.dumps(
    {"choices": [{"message": {"role": "assistant", "content": TEXT * 12}}]}
).encode()
