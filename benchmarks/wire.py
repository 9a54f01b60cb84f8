"""What a model call over the wire costs, beside the same client on a bare in-process transport."""

from __future__ import annotations

import json
import os
import sys
import tempfile
from collections.abc import Callable, Iterator
from functools import partial
from pathlib import Path
from typing import Any, Final

import httpx

from benchmarks.graph import TEXT
from benchmarks.measuring import medians
from simkit.capture.cassettes import Cassette, Interaction, Keying, Player, encoded, load
from simkit.capture.http.interception import intercepting
from simkit.capture.http.request_router import Decision, passing_through
from simkit.core.redact import Redactor
from simkit.providers.http import HttpRequest, HttpResponse
from simkit.session.simulate import simulate
from simkit.spec.scenario.files import Library, Prepared, items_in

APPS: Final = Path(__file__).parent / "apps"
CALLS: Final = 40
SIZES: Final = (10, 5_000)
LONG_CALLS: Final = 20
"""Calls in a long conversation."""
REPLAYED: Final = 10
"""Requests in a round; each is answered once."""
URL: Final = "https://api.openai.com/v1/chat/completions"
JSON: Final = (("content-type", "application/json"),)
ANSWER: Final = json.dumps(
    {
        "id": "chatcmpl-1", "object": "chat.completion", "created": 0, "model": "gpt-5",
        "choices": [
            {
                "index": 0, "finish_reason": "stop",
                "message": {"role": "assistant", "content": TEXT},
            }
        ],
        "usage": {"prompt_tokens": 9, "completion_tokens": 9, "total_tokens": 18},
    }
).encode()  # fmt: skip


class _Same:
    """A gate that answers everything alike."""

    def take(self, request: HttpRequest) -> Decision:
        return HttpResponse(200, JSON, (ANSWER,))


class _Replaying:
    """A gate that answers from a cassette."""

    def __init__(self, player: Player) -> None:
        self._player = player

    def take(self, request: HttpRequest) -> Decision:
        return self._player.take("", 1, request)


def rows(rounds: int) -> list[list[object]]:
    """Returns what a call costs with more and more of simkit around it, and replayed.

    vcrpy stands in the table `cassettes`: it sees nothing of a client on httpx2.
    """
    try:
        import httpx2  # noqa: F401
        import openai  # noqa: F401
    except ImportError as problem:
        return [["wire", f"{problem.name} is not installed", ""]]
    os.environ.setdefault("OPENAI_API_KEY", "none")
    sys.path.insert(0, str(APPS))
    try:
        with tempfile.TemporaryDirectory() as folder:
            return [
                *_calls(Path(folder), rounds),
                _old_messages(Path(folder), rounds),
                *_replays(Path(folder), rounds),
            ]
    finally:
        sys.path.remove(str(APPS))


def _calls(folder: Path, rounds: int) -> Iterator[list[object]]:
    subjects: dict[str, Callable[[], object]] = {
        "bare client": partial(_bare, _bare_client()),
        "client, intercepted": partial(_intercepted, _client()),
        "scenario: trace, lints, claims": partial(simulate, _scenario(folder, "wire_desk")),
        "the same, code that reads a clock": partial(
            simulate, _scenario(folder, "wire_desk_timed")
        ),
    }
    for subject in subjects.values():
        subject()  # At its first call a client reads its types.
    times = medians(subjects, rounds)
    bare = times["bare client"]
    for name, seconds in times.items():
        yield [name, f"{seconds / CALLS * 1e3:.2f} ms a call", f"{seconds / bare:.2f}×"]


def _old_messages(folder: Path, rounds: int) -> list[object]:
    """Returns what simkit adds to a call for each message that was sent before.

    The client is plain httpx, since a provider's own reads each message, too.
    """
    from wire_long import Desk

    def bare(earlier: int) -> None:
        client = httpx.Client(transport=httpx.MockTransport(lambda _: _bare_answer()))
        desk = Desk(earlier, client)
        for number in range(LONG_CALLS):
            desk.ask(f"{number}: {TEXT}")

    sizes = {"after_few": 10, "after_many": 1_010}
    subjects: dict[str, Callable[[], object]] = {
        name: partial(simulate, _scenario(folder, "wire_long", name, LONG_CALLS)) for name in sizes
    }
    subjects |= {f"bare {name}": partial(bare, size) for name, size in sizes.items()}
    for subject in subjects.values():
        subject()
    times = medians(subjects, rounds)
    ours = times["after_many"] - times["after_few"]
    theirs = times["bare after_many"] - times["bare after_few"]
    share = (ours - theirs) / LONG_CALLS / (sizes["after_many"] - sizes["after_few"])
    return ["simkit's share, per old message", f"{share * 1e6:.1f} µs", ""]


def _bare_answer() -> httpx.Response:
    return httpx.Response(200, headers=dict(JSON), content=ANSWER)


def _talk(desk: Any) -> None:
    for number in range(CALLS):
        desk.ask(f"{number}: {TEXT}")


def _bare(client: Any) -> None:
    from wire_desk import Desk

    _talk(Desk(client))


def _intercepted(client: Any) -> None:
    with intercepting(), passing_through(_Same()):
        _bare(client)


def _bare_client() -> Any:
    """Returns a provider's client whose transport answers everything alike, and at once."""
    import httpx2
    from openai import OpenAI

    def answer(request: httpx2.Request) -> httpx2.Response:
        return httpx2.Response(200, headers=dict(JSON), content=ANSWER)

    return OpenAI(http_client=httpx2.Client(transport=httpx2.MockTransport(answer)))


def _client() -> Any:
    """Returns a provider's client, without certificates: loading them takes long."""
    import httpx2
    from openai import OpenAI

    return OpenAI(http_client=httpx2.Client(verify=False))


def _scenario(folder: Path, module: str, entry: str = "Desk", calls: int = CALLS) -> Prepared:
    turns = [
        {
            "user": f"{number}: {TEXT}",
            "replies": {"desk": TEXT},
            "expect": {"reply": TEXT, "agents": ["desk"]},
        }
        for number in range(calls)
    ]
    document = {
        "version": 1, "scenario": "desk", "pipeline": f"{module}:{entry}",
        "app": {"path": [str(APPS)], "call": "ask"}, "agents": {"desk": "Help."}, "turns": turns,
    }  # fmt: skip
    file = folder / f"{module}_{entry}.scenario.yaml"
    file.write_text(json.dumps(document), encoding="utf-8")
    (item,) = items_in(str(file))
    return Library().prepared(item)


def _replays(folder: Path, rounds: int) -> Iterator[list[object]]:
    for size in SIZES:
        file = folder / f"{size}.yaml"
        file.write_bytes(encoded(Cassette(file, tuple(map(_interaction, range(size))))))
        ways: dict[
            str, tuple[Callable[[Iterator[int]], object], Callable[[Iterator[int]], object]]
        ] = {
            "client": (partial(_ask, _bare_client()), partial(_ask, _client())),
            "httpx": (partial(_post, _bare_httpx()), partial(_post, httpx.Client())),
        }
        for way, (bare, real) in ways.items():
            subjects: dict[str, Callable[[], object]] = {
                f"bare {way}": partial(_ask_all, bare),
                f"{way}, simkit": _asked_of(file, size, rounds, real),
            }
            times = medians(subjects, rounds)
            for name, seconds in times.items():
                ratio = f"{times[f'bare {way}'] / seconds:.2f}"
                yield [f"{size} recorded: {name}", f"{REPLAYED / seconds:.0f} calls/s", ratio]


def _interaction(number: int) -> Interaction:
    body = json.dumps({"messages": _messages(number), "model": "gpt-5"}).encode()
    return Interaction(
        request=HttpRequest("POST", URL, JSON, body), response=HttpResponse(200, JSON, (ANSWER,))
    )


def _messages(number: int) -> list[Any]:
    return [
        {"role": "system", "content": TEXT * 4},
        {"role": "user", "content": f"{number}: {TEXT * 4}"},
    ]


def _ask(client: Any, numbers: Iterator[int]) -> None:
    for _ in range(REPLAYED):
        messages = _messages(next(numbers))
        assert client.chat.completions.create(model="gpt-5", messages=messages).choices


def _post(client: httpx.Client, numbers: Iterator[int]) -> None:
    for _ in range(REPLAYED):
        body = json.dumps({"messages": _messages(next(numbers)), "model": "gpt-5"})
        assert client.post(URL, content=body, headers=JSON).json()["choices"]


def _bare_httpx() -> httpx.Client:
    answer = partial(httpx.Response, 200, headers=JSON, content=ANSWER)
    return httpx.Client(transport=httpx.MockTransport(lambda _: answer()))


def _ask_all(ask: Callable[[Iterator[int]], object]) -> None:
    ask(iter(range(REPLAYED)))


def _asked_of(
    file: Path, size: int, rounds: int, send: Callable[[Iterator[int]], object]
) -> Callable[[], object]:
    """Returns a round of requests to a player that was made beforehand."""
    cassette, keying = load(file), Keying(Redactor({}))
    is_small = size == SIZES[0]
    players = iter([Player(cassette, keying) for _ in range(rounds if is_small else 1)] * rounds)
    numbers = iter([place % size for place in range(REPLAYED * rounds)])

    def ask() -> None:
        with intercepting(), passing_through(_Replaying(next(players))):
            send(numbers)

    return ask
