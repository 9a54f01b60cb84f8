"""Web applications: each turn is a request to an ASGI application, as its server would make it."""

from __future__ import annotations

import importlib
import json
from pathlib import Path
from typing import Any

import pytest

from simkit import Outcome, SimkitError, SourceError, load, simulate
from simkit.adapters import asgi
from tests.cli.conftest import project as project
from tests.cli.conftest import simkit as simkit
from tests.cli.projects import Call, write

ASK = """
from openai import AsyncOpenAI, OpenAI

async def ask(messages):
    done = await AsyncOpenAI().chat.completions.create(model="m", messages=messages)
    return done.choices[0].message.content
"""
FASTAPI = f"""{ASK}
from contextlib import asynccontextmanager
from fastapi import Cookie, FastAPI, Header, HTTPException, Request, Response
from pydantic import BaseModel

events = []

@asynccontextmanager
async def lifespan(app):
    app.state.history = []
    yield {{"shop": "Ada's"}}
    events.append("ended")
    print("the shop is closed")

app = FastAPI(lifespan=lifespan)

def create():
    return app

class Ask(BaseModel):
    question: str
    language: str = "en"

@app.post("/chat")
async def chat(ask_: Ask, response: Response, visits: int = Cookie(0)):
    app.state.history.append({{"role": "user", "content": ask_.question}})
    reply = await ask(app.state.history)
    response.set_cookie("visits", str(visits + 1))
    return {{"answer": reply, "visits": visits + 1, "language": ask_.language}}

@app.post("/threads")
def in_thread(ask_: Ask):
    said = [{{"role": "user", "content": ask_.question}}]
    done = OpenAI().chat.completions.create(model="m", messages=said)
    return done.choices[0].message.content

@app.post("/rooms/{{room}}")
async def room(room: str, ask_: Ask):
    return room + ": " + await ask([{{"role": "user", "content": ask_.question}}])

@app.post("/mine")
async def mine(ask_: Ask, x_user: str = Header()):
    return x_user + ": " + await ask([{{"role": "user", "content": ask_.question}}])

@app.post("/locked")
async def locked(ask_: Ask, request: Request):
    if "authorization" not in request.headers:
        raise HTTPException(401, "who are you?")
    raise HTTPException(403, "not you")

@app.post("/fails")
async def fails(ask_: Ask):
    raise LookupError("no such order")
"""
STARLETTE = f"""{ASK}
from starlette.applications import Starlette
from starlette.requests import Request
from starlette.responses import PlainTextResponse, StreamingResponse
from starlette.routing import Route

async def chat(request: Request):
    body = await request.json()
    reply = await ask([{{"role": "user", "content": body["message"]}}])
    async def words():
        for word in reply.split():
            yield word + " "
    return StreamingResponse(words(), media_type="text/plain")

async def refuses(request: Request):
    return PlainTextResponse("too many requests", status_code=429)

app = Starlette(routes=[
    Route("/chat", chat, methods=["POST"]), Route("/refuses", refuses, methods=["POST"]),
])
"""
BARE = f"""{ASK}
import json

async def app(scope, receive, send):
    assert scope["type"] == "http"
    body = json.loads((await receive())["body"])
    reply = await ask([{{"role": "user", "content": body["message"]}}])
    await send({{"type": "http.response.start", "status": 200,
                 "headers": [(b"content-type", b"application/json")]}})
    await send({{"type": "http.response.body", "body": json.dumps({{"text": reply}}).encode()}})
"""
CLOSED = """
from starlette.applications import Starlette

async def begin():
    raise ConnectionError("the database is away")

class Closed(Starlette):
    async def __call__(self, scope, receive, send):
        if scope["type"] == "lifespan":
            await receive()
            await send({"type": "lifespan.startup.failed", "message": "the database is away"})

app = Closed()
"""


def problems_of(outcome: Outcome) -> list[str]:
    """The texts of what a run broke."""
    return [str(finding) for finding in outcome.judgement.findings]


def scenario(tmp_path: Path, code: str, app: str, turns: str, entry: str = "web:app") -> Any:
    """A scenario of a web application in a folder."""
    (tmp_path / "web.py").write_text(code, encoding="utf-8")
    (tmp_path / "a.scenario.yaml").write_text(
        f"version: 1\nscenario: a\npipeline: {entry}\napp: {{path: [.], fresh: true{app}}}\n"
        f"agents: {{desk: {{model: m}}}}\nturns:\n{turns}",
        encoding="utf-8",
    )
    (case,) = load(tmp_path / "a.scenario.yaml")
    return case


TWO_TURNS = """\
  - user: hi
    replies: {desk: hello}
    expect: {reply: hello}
  - user: again
    replies: {desk: gladly}
    expect: {reply: gladly, context: {desk: {messages: [{user: hi}, {user: again}]}}}
"""


@pytest.mark.slow
@pytest.mark.parametrize("entry", ["web:app", "web:create"], ids=["object", "factory"])
def test_each_turn_is_a_request_to_one_application(
    tmp_path: Path, entry: str, capsys: pytest.CaptureFixture[str]
) -> None:
    case = scenario(tmp_path, FASTAPI, ", post: /chat, output: answer", TWO_TURNS, entry)

    assert problems_of(simulate(case)) == []
    assert capsys.readouterr().out == "the shop is closed\n"
    failed = scenario(
        tmp_path, FASTAPI, ", post: /chat, output: answer", TWO_TURNS.replace("gladly}", "no}", 1)
    )
    assert ["reply does not match" in text for text in problems_of(simulate(failed))] == [True]


@pytest.mark.slow
def test_a_session_keeps_its_cookies_and_the_whole_answer_is_the_reply(tmp_path: Path) -> None:
    turns = "".join(
        f"  - user: hi\n    session: {session}\n    replies: {{desk: hello}}\n"
        f"    expect: {{reply: {{answer: hello, visits: {visits}, language: en}}}}\n"
        for session, visits in (("one", 1), ("one", 2), ("two", 1), ("one", 3))
    )

    outcome = simulate(scenario(tmp_path, FASTAPI, ", post: /chat", turns))

    # One list holds what both sessions say; no claim on a reply failed.
    assert {each.id for each in outcome.judgement.findings} == {"CTX-16", "STA-08"}


@pytest.mark.parametrize(
    ("code", "app", "reply"),
    [
        (FASTAPI, ", post: /threads", "hello you"),
        (FASTAPI, ', post: "/rooms/${session}"', "s1: hello you"),
        (
            FASTAPI,
            ', post: /chat, input: {question: "${user}", language: de}, output: language',
            "de",
        ),
        (FASTAPI, ', post: /mine, headers: {X-User: "${session}"}', "s1: hello you"),
        (
            FASTAPI,
            ', post: /chat, input: {question: "${user}", language: "${session}"}, output: language',
            "s1",
        ),
        (STARLETTE, ", post: /chat", "hello you "),
        (BARE, ", post: /, output: text", "hello you"),
    ],
    ids=["thread", "session in the path", "input", "header", "session", "stream", "a function"],
)
def test_any_application_is_asked_as_it_is(tmp_path: Path, code: str, app: str, reply: str) -> None:
    turns = f"  - {{user: hi, replies: {{desk: hello you}}, expect: {{reply: {reply!r}}}}}\n"

    assert problems_of(simulate(scenario(tmp_path, code, app, turns))) == []


@pytest.mark.parametrize(
    ("code", "app", "problem"),
    [
        (
            FASTAPI,
            ", post: /chad",
            "4:37: `web:app` takes no POST to `/chad`.\nDid you mean `/chat`?",
        ),
        (
            FASTAPI,
            ", post: /chat, output: anser",
            "4:52: the answer has no `anser`: it has `answer`, `visits`, `language`",
        ),
        (
            STARLETTE,
            "",
            "3:11: `web:app` is an ASGI application: which path takes the user's message?\n"
            "Name it: `app: {post: /chat}` or `app: {post: /refuses}`.",
        ),
        (
            "def app(text):\n    return text\n",
            ", post: /chat",
            "4:37: `post` does nothing here: what runs `web:app` (the driver `python`) reads "
            "`call` and `input`.\nLeave it out.",
        ),
    ],
    ids=["path", "output", "no path", "no application"],
)
def test_a_mistake_of_the_file_names_its_place(
    tmp_path: Path, code: str, app: str, problem: str
) -> None:
    case = scenario(tmp_path, code, app, "  - {user: hi, replies: {desk: hello}}\n")

    with pytest.raises(SourceError) as error:
        simulate(case)

    assert str(error.value) == f"{tmp_path}/a.scenario.yaml:{problem}"


@pytest.mark.parametrize(
    ("code", "app", "error"),
    [
        (FASTAPI, ", post: /fails", {"$contains": "LookupError: no such order"}),
        (
            FASTAPI,
            ", post: /chat, input: {text: hi}",
            {"$ends": '"hi"}. It takes: `app: {input: {question: "$${user}"}}`.'},
        ),
        (FASTAPI, ", post: /mine", {"$ends": "`app: {headers: {x-user: …}}`."}),
        (FASTAPI, ", post: /locked", {"$ends": "`app: {headers: {authorization: …}}`."}),
        (
            FASTAPI,
            ", post: /locked, headers: {Authorization: Bearer x}",
            {"$ends": 'not you"}\nIt was sent {"question": "hi"}.'},
        ),
        (STARLETTE, ", post: /refuses", "POST /refuses was answered with 429: too many requests"),
        (CLOSED, ", post: /chat", "`web:app` did not start: the database is away"),
    ],
    ids=["raises", "other input", "header", "nobody", "somebody else", "status", "start"],
)
def test_an_error_of_the_application_is_the_turns(
    tmp_path: Path, code: str, app: str, error: Any
) -> None:
    claim = json.dumps({"type": "FunctionFailed", "message": error})
    turns = f"  - {{user: hi, expect: {{error: {claim}}}}}\n"

    assert problems_of(simulate(scenario(tmp_path, code, app, turns))) == []


@pytest.mark.slow
def test_init_asks_for_the_path_only_where_there_are_several(project: Path, simkit: Call) -> None:
    write("web.py", FASTAPI)
    several = simkit("init", "--app", "web:app")
    refused = simkit("init", "--app", "web:app", "--option", "post=/mine")
    misspelt = simkit("init", "--app", "web:app", "--option", "header.a=b")
    write("web.py", FASTAPI[: FASTAPI.index('@app.post("/threads")')])
    single = simkit("init", "--app", "web:app", "--option", "headers.authorization=Bearer test")

    assert several.code == refused.code == misspelt.code == 2
    assert refused.err.endswith("  Here: `--option headers.NAME=VALUE`.\n")
    assert "did you mean `headers`?   known: call," in misspelt.err
    assert "`app: {post: /chat}` or `app: {post: /threads}`" in several.err
    assert "Here: `--option post=/chat` or `--option post=/threads`" in several.err
    assert " or `--option 'post=/rooms/${session}'`" in several.err
    assert (single.code, single.err) == (0, "")
    app = "app: {headers: {authorization: Bearer test}, post: /chat}"
    assert app in Path("scenarios/web.pipeline.yaml").read_text(encoding="utf-8")


@pytest.mark.parametrize("missing", [("httpx",), ("httpx", "httpx2")], ids=["one", "both"])
def test_either_client_library_speaks_to_the_application(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, missing: tuple[str, ...]
) -> None:
    case = scenario(tmp_path, FASTAPI, ", post: /chat, output: answer", TWO_TURNS)
    monkeypatch.setattr(
        asgi,
        "import_module",
        lambda name: importlib.import_module("no_such_module" if name in missing else name),
    )

    if len(missing) == 1:
        assert problems_of(simulate(case)) == []
    else:
        with pytest.raises(SimkitError, match="`post` needs httpx, which is not installed here"):
            simulate(case)


@pytest.mark.slow
def test_init_ends_where_the_client_library_is_missing(
    project: Path, simkit: Call, tmp_path_factory: pytest.TempPathFactory, monkeypatch: Any
) -> None:
    folder = tmp_path_factory.mktemp("startup")
    # The application has a process of its own, in which simkit alone must not find the library: a
    # changed environment starts a new one, since a test before may have left one that is ready.
    monkeypatch.setenv("APPLICATION_STARTUP", str(folder))
    (folder / "sitecustomize.py").write_text(
        "import importlib, sys\n"
        "usual = importlib.import_module\n"
        "def import_module(name, package=None):\n"
        "    if sys._getframe(1).f_globals['__name__'] == 'simkit.adapters.asgi':\n"
        "        name = 'no_such_module'\n"
        "    return usual(name, package)\n"
        "importlib.import_module = import_module\n",
        encoding="utf-8",
    )
    monkeypatch.syspath_prepend(str(folder))
    write("web.py", FASTAPI)

    done = simkit("init", "--app", "web:app", "--option", "post=/chat")

    assert done.code == 2
    assert "`post` needs httpx" in done.err
