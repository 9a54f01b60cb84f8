"""What every client has in common, however it sends."""

from __future__ import annotations

import asyncio
import contextvars
import ssl
import subprocess
import sys
import threading
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from pathlib import Path
from typing import Any

import aiohttp
import anthropic
import certifi
import httpx
import httpx2
import openai
import pytest
import requests
from google import genai
from google.genai import types

from simkit.capture.http.guards import Guard
from simkit.capture.http.interception import intercepting, patched
from simkit.capture.http.refusals import late_refusals
from simkit.capture.http.request_router import passing_through
from simkit.core.errors import CallUnattributed, RunHalted
from simkit.providers.http import HttpRequest, HttpResponse, NoResponse, header
from tests.capture.http.clients import ALL, ASYNC, BLOCKING, SENT_MESSAGES, Pieces, shared
from tests.capture.http.conftest import ZIPPED, Server
from tests.capture.http.gates import EVENTS, HALT, JSON, Always, answering, json_answer, listening
from tests.processes import run_python

URL = "https://api.example.com/v1/things"
STREAMED = HttpResponse(200, EVENTS, (b"data: 0\n\n", b"data: 1\n\n", b"data: [DONE]\n\n"))

# google-genai's own: aiohttp discourages what its client does.
pytestmark = pytest.mark.filterwarnings("ignore:Inheritance class:DeprecationWarning")

every_client = pytest.mark.parametrize("send", ALL.values(), ids=ALL)
every_blocking = pytest.mark.parametrize("send", BLOCKING.values(), ids=BLOCKING)

# Answers.


@every_client
def test_request_is_taken_and_answered(send: Callable[..., Pieces]) -> None:
    with answering(json_answer('{"b": 2}')) as gate:
        assert send(URL) == [b'{"b": 2}']

    (used,) = gate.requests
    assert (used.method, used.url, used.body) == ("POST", URL, SENT_MESSAGES)
    assert header(used.headers, "host") == "api.example.com"


@every_client
def test_stream_arrives_in_its_pieces(send: Callable[..., Pieces]) -> None:
    with answering(STREAMED):
        assert send(URL) == list(STREAMED.chunks)


@every_client
def test_answer_is_decoded_as_its_headers_say(send: Callable[..., Pieces]) -> None:
    zipped = HttpResponse(200, (*JSON, ("content-encoding", "gzip")), (ZIPPED,))
    is_plain = send in (BLOCKING["urllib"], BLOCKING["http.client"])

    with answering(zipped):
        assert send(URL) == [ZIPPED if is_plain else b'{"a": 1}']


@every_client
def test_body_may_be_empty(send: Callable[..., Pieces]) -> None:
    with answering(HttpResponse(200, (), ())):
        assert send(URL) == []
    with answering(HttpResponse(204, (), ())):
        assert send(URL) == []


ERRORS: dict[str, tuple[str, str, str, str]] = {
    # what a timeout, a refused connection, a cut stream and a stalled one are to each
    "httpx": ("ReadTimeout", "ConnectError", "RemoteProtocolError", "ReadTimeout"),
    "requests": ("ReadTimeout", "ConnectionError", "ChunkedEncodingError", "ConnectionError"),
    "urllib3": ("ReadTimeoutError", "ProtocolError", "ProtocolError", "ReadTimeoutError"),
    "urllib": ("TimeoutError", "ConnectionRefusedError", "IncompleteRead", "TimeoutError"),
    "aiohttp": (
        *("SocketTimeoutError", "ClientConnectorError", "ClientPayloadError"),
        "SocketTimeoutError",
    ),
}
ERRORS["httpx2"] = ERRORS["httpx async"] = ERRORS["httpx2 async"] = ERRORS["httpx"]
ERRORS["http.client"] = ERRORS["urllib"]


@pytest.mark.parametrize("name", ALL)
def test_failure_is_the_clients_own_error(name: str) -> None:
    failures: list[HttpResponse | NoResponse] = [
        NoResponse("timeout", "no answer"),
        NoResponse("connection", "refused"),
        HttpResponse(200, EVENTS, (b"data: 0\n\n",), ends="cut"),
        HttpResponse(200, EVENTS, (b"data: 0\n\n",), ends="timeout"),
    ]
    results = []
    for failure in failures:
        with answering(failure), pytest.raises(Exception) as raised:  # noqa: PT011 - by its name
            ALL[name](URL)
        results.append(type(raised.value).__name__)

    assert tuple(results) == ERRORS[name]


@every_client
def test_wait_that_the_client_has_patience_for_only_delays(send: Callable[..., Pieces]) -> None:
    slow = HttpResponse(200, EVENTS, (b"data: 0\n\n", b"data: 1\n\n"), waits_ms=(0, 10))

    with answering(slow):
        assert send(URL) == list(slow.chunks)


# What is halted.


@every_client
def test_halt_comes_out_of_the_client_unwrapped(send: Callable[..., Pieces]) -> None:
    with answering(HALT), pytest.raises(RunHalted) as raised:
        send(URL)

    assert raised.value is HALT


MESSAGES: Any = [{"role": "user", "content": "hi"}]


def ask_openai(stream: bool) -> Any:
    with openai.OpenAI(api_key="none") as client:
        return client.chat.completions.create(model="m", messages=MESSAGES, stream=stream)


async def ask_openai_async(stream: bool) -> Any:
    async with openai.AsyncOpenAI(api_key="none") as client:
        return await client.chat.completions.create(model="m", messages=MESSAGES, stream=stream)


def ask_anthropic(stream: bool) -> Any:
    with anthropic.Anthropic(api_key="none") as client:
        return client.messages.create(model="m", max_tokens=9, messages=MESSAGES, stream=stream)


async def ask_anthropic_async(stream: bool) -> Any:
    async with anthropic.AsyncAnthropic(api_key="none") as client:
        return await client.messages.create(
            model="m", max_tokens=9, messages=MESSAGES, stream=stream
        )


def ask_gemini(stream: bool) -> Any:
    client = genai.Client(api_key="none")
    if stream:
        return list(client.models.generate_content_stream(model="m", contents="hi"))
    return client.models.generate_content(model="m", contents="hi")


async def ask_gemini_async(stream: bool) -> Any:
    client = genai.Client(api_key="none")
    if stream:
        result = await client.aio.models.generate_content_stream(model="m", contents="hi")
        return [piece async for piece in result]
    return await client.aio.models.generate_content(model="m", contents="hi")


@pytest.mark.parametrize("is_streamed", [False, True], ids=["plain", "streamed"])
@pytest.mark.parametrize(
    "ask",
    [
        *(ask_openai, lambda stream: asyncio.run(ask_openai_async(stream))),
        *(ask_anthropic, lambda stream: asyncio.run(ask_anthropic_async(stream))),
        *(ask_gemini, lambda stream: asyncio.run(ask_gemini_async(stream))),
    ],
    ids=["openai", "openai async", "anthropic", "anthropic async", "gemini", "gemini async"],
)
def test_halt_comes_out_of_a_providers_client_unwrapped(
    ask: Callable[[bool], Any], is_streamed: bool
) -> None:
    with answering(HALT) as gate, pytest.raises(RunHalted):
        ask(is_streamed)

    assert len(gate.requests) == 1


# Providers' clients.


def test_providers_clients_are_answered() -> None:
    chat = json_answer(
        '{"choices":[{"message":{"role":"assistant","content":"hello"},"finish_reason":"stop"}]}'
    )
    message = json_answer('{"content":[{"type":"text","text":"hello"}],"role":"assistant"}')
    gemini = json_answer('{"candidates":[{"content":{"parts":[{"text":"hello"}]}}]}')

    with answering(chat):
        assert ask_openai(False).choices[0].message.content == "hello"
        assert asyncio.run(ask_openai_async(False)).choices[0].message.content == "hello"
    with answering(message):
        assert ask_anthropic(False).content[0].text == "hello"
        assert asyncio.run(ask_anthropic_async(False)).content[0].text == "hello"
    with answering(gemini) as gate:
        assert ask_gemini(False).text == "hello"
        assert asyncio.run(ask_gemini_async(False)).text == "hello"
        aiohttp_options = types.HttpOptions(async_client_args={"trust_env": False})
        client = genai.Client(api_key="none", http_options=aiohttp_options)
        assert asyncio.run(with_gemini(client)) == "hello"

    assert len(gate.requests) == 3


async def with_gemini(client: Any) -> str:
    response = await client.aio.models.generate_content(model="m", contents="hi")
    return str(response.text)


# Whose request it is.


class Echo:
    """Answers with its own name."""

    def __init__(self, name: str) -> None:
        self.name = name

    def take(self, request: HttpRequest) -> HttpResponse:
        return HttpResponse(200, EVENTS, (self.name.encode(), b"!"))


@pytest.mark.parametrize("library", ["httpx", "httpx2", "aiohttp"])
def test_a_hundred_sessions_in_one_loop_get_their_own_answers(library: str) -> None:
    async def session(name: str, post: Callable[[str], Awaitable[bytes]]) -> list[bytes]:
        with passing_through(Echo(name)):
            responses = [await post(URL)]
            return responses + list(
                await asyncio.gather(post(URL), asyncio.ensure_future(post(URL)))
            )

    async def all_sessions() -> list[list[bytes]]:
        async with shared(library) as post:
            return await asyncio.gather(*(session(f"s{number}", post) for number in range(100)))

    with intercepting():
        completed = asyncio.run(all_sessions())

    assert completed == [[f"s{number}!".encode()] * 3 for number in range(100)]


@every_client
def test_two_threads_with_gates_of_their_own_get_their_own_answers(
    send: Callable[..., Pieces],
) -> None:
    both = threading.Barrier(2)

    def session(name: str) -> Pieces:
        with intercepting(), passing_through(Echo(name)):
            both.wait()
            response = send(URL)
            both.wait()
            return response

    with ThreadPoolExecutor(2) as pool:
        assert list(pool.map(session, "ab")) == [[b"a", b"!"], [b"b", b"!"]]


@every_blocking
def test_pool_that_is_older_than_the_run_goes_through_the_only_gate(
    send: Callable[..., Pieces],
) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(bool).result()
        with answering(json_answer("only")):
            assert pool.submit(send, URL).result() == [b"only"]


@every_blocking
def test_pool_that_is_older_than_two_runs_is_an_error(send: Callable[..., Pieces]) -> None:
    with ThreadPoolExecutor(1) as pool:
        pool.submit(bool).result()
        with (
            answering(json_answer("a")) as first,
            answering(json_answer("b")) as second,
            pytest.raises(RunHalted) as raised,
        ):
            pool.submit(send, URL).result()

    assert isinstance(raised.value.cause, CallUnattributed)
    assert str(raised.value.cause) == (
        f"POST {URL} was sent from a thread that belongs to none of the 2 scenarios that run now.\n"
        "Start the thread inside the run, or give it the context: "
        "`contextvars.copy_context().run(...)`."
    )
    assert (first.requests, second.requests) == ([], [])


@every_blocking
def test_thread_that_is_given_the_context_belongs_to_its_run(send: Callable[..., Pieces]) -> None:
    with ThreadPoolExecutor(1) as pool, answering(json_answer("a")), answering(json_answer("b")):
        value = pool.submit(contextvars.copy_context().run, send, URL).result()

    assert value == [b"b"]


def test_task_of_a_run_that_is_over_is_halted() -> None:
    async def outlive() -> BaseException | None:
        go = asyncio.Event()

        async def late() -> None:
            await go.wait()
            await ASYNC["httpx async"](URL)

        with passing_through(Always(json_answer("early"))):
            task = asyncio.create_task(late())
        go.set()
        await asyncio.wait([task])
        return task.exception()

    with intercepting():
        problem = asyncio.run(outlive())

    text = (
        f"POST {URL} was sent from a task or thread of a scenario that is over.\n"
        "Wait for it inside the run."
    )
    assert isinstance(problem, RunHalted)
    assert str(problem.cause) == text
    assert late_refusals() in ([text], [])  # Noted where this process has had a run.


# What is forwarded.


@every_client
def test_forwarded_response_is_heard_piece_by_piece(
    send: Callable[..., Pieces], server: Server
) -> None:
    with listening() as response:
        assert send(f"{server.url}/stream") == [b"data: 0\n\n", b"data: 1\n\n", b"data: 2\n\n"]

    assert response.events == [200, b"data: 0\n\n", b"data: 1\n\n", b"data: 2\n\n", "ended: "]
    assert header(response.headers, "Transfer-Encoding") == "chunked"


@every_client
def test_piece_reaches_the_client_before_the_next_is_sent(
    send: Callable[..., Pieces], server: Server
) -> None:
    with listening() as response:
        assert send(f"{server.url}/stream", most=1) == [b"data: 0\n\n"]

    assert response.events == [200, b"data: 0\n\n", "ended: closed early"]


@every_client
def test_tap_hears_what_was_sent_as_it_was_compressed(
    send: Callable[..., Pieces], server: Server
) -> None:
    with listening() as response:
        send(f"{server.url}/gzip")

    assert b"".join(piece for piece in response.events if isinstance(piece, bytes)) == ZIPPED
    assert header(response.headers, "content-encoding") == "gzip"


@every_client
def test_body_that_ends_with_the_connection_is_whole(
    send: Callable[..., Pieces], server: Server
) -> None:
    with listening() as response:
        assert send(f"{server.url}/rude") == [b"abc"]

    assert response.events == [200, b"abc", "ended: "]


@every_client
def test_tap_hears_that_the_connection_was_lost(
    send: Callable[..., Pieces], server: Server
) -> None:
    with listening() as response, suppress(Exception):
        send(f"{server.url}/cut")

    assert response.events in [
        [200, b"abc", "ended: the connection was closed before the response was whole"],
        [
            *(200, b"abc"),
            "ended: RemoteProtocolError: peer closed connection without sending complete "
            "message body (received 3 bytes, expected 10)",
        ],
    ]


@every_client
def test_tap_hears_that_nobody_was_there(send: Callable[..., Pieces]) -> None:
    with listening() as response, pytest.raises(Exception, match=r"(?i)connect"):
        send("http://127.0.0.1:1/x")

    (report,) = response.events
    assert isinstance(report, str)
    assert report.startswith("ended: ")


@every_client
def test_guarded_function_may_send_what_the_gate_forwards(
    send: Callable[..., Pieces], server: Server
) -> None:
    effects: list[str] = []
    with listening() as response, Guard(lambda effect, where: effects.append(effect)):
        assert send(f"{server.url}/plain") == [b"plain"]

    assert response.events == [200, b"plain", "ended: "]
    assert "network" not in effects


# Before, between and after.


@every_client
def test_without_a_gate_everything_is_as_it_was(
    send: Callable[..., Pieces], server: Server
) -> None:
    with intercepting():
        assert send(f"{server.url}/plain") == [b"plain"]


def test_clients_of_before_the_run_are_answered_and_go_on_after_it(server: Server) -> None:
    url = f"{server.url}/plain"
    with (
        httpx.Client(verify=False) as old,
        httpx2.Client(verify=False) as new,
        requests.Session() as session,
    ):
        before = [old.get(url).text, new.get(url).text, session.get(url).text]
        with answering(json_answer("answered")):
            during = [old.get(url).text, new.get(url).text, session.get(url).text]
        after = [old.get(url).text, new.get(url).text, session.get(url).text]

    assert (before, during, after) == (["plain"] * 3, ["answered"] * 3, ["plain"] * 3)


def test_aiohttp_session_of_before_the_run_is_answered_and_goes_on_after_it(server: Server) -> None:
    url = f"{server.url}/plain"

    async def texts(session: aiohttp.ClientSession) -> list[str]:
        async with session.get(url) as response:
            return [await response.text()]

    async def all_three() -> list[str]:
        async with aiohttp.ClientSession() as session:
            result = await texts(session)
            with answering(json_answer("answered")):
                result += await texts(session)
            return result + await texts(session)

    assert asyncio.run(all_three()) == ["plain", "answered", "plain"]


LATE = """
import sys
from simkit.capture.http.request_router import passing_through
from simkit.capture.http.interception import intercepting
from simkit.providers.http import HttpResponse

class RequestRouter:
    def take(self, request):
        return HttpResponse(200, (), (b"late",))

with intercepting(), passing_through(RequestRouter()):
    clients = {"httpx", "httpx2", "aiohttp", "urllib3", "requests", "vcr", "http.client"}
    print(sorted(clients & set(sys.modules)))
    import inspect
    import LIBRARY
    inspect.getsource(LIBRARY)
    print(CALLED)
print([finder for finder in sys.meta_path if "simkit" in type(finder).__module__])
"""
AIOHTTP = """
import asyncio
async def text():
    async with aiohttp.ClientSession() as session, session.get(URL) as response:
        return await response.text()
print(asyncio.run(text()))
"""


@pytest.mark.parametrize(
    ("library", "called"),
    [
        ("httpx", "httpx.get(URL, verify=False).text"),
        ("httpx2", "httpx2.get(URL, verify=False).text"),
        ("aiohttp", f"exec({AIOHTTP!r}) or 'late'"),
        ("requests", "requests.get(URL).text"),
        ("urllib3", "urllib3.request('GET', URL).data.decode()"),
        ("urllib.request", "urllib.request.urlopen(URL).read().decode()"),
    ],
)
def test_library_that_is_imported_during_the_run_is_patched(library: str, called: str) -> None:
    code = LATE.replace("LIBRARY", library).replace("CALLED", called)
    done = python(f"URL = {URL!r}\n{code}")

    assert done.stderr == ""
    assert done.stdout.replace("late\nlate", "late") == "[]\nlate\n[]\n"


def python(code: str) -> subprocess.CompletedProcess[str]:
    """Runs code in a new interpreter."""
    return run_python("-c", code)


ALIASED = """
import httpx2
httpx2.alias_httpx()
import httpx
from simkit.capture.http.request_router import passing_through
from simkit.capture.http.interception import intercepting
from simkit.providers.http import HttpResponse

class Always:
    requests = []
    def take(self, request):
        self.requests.append(request)
        return HttpResponse(200, (), (b"one",))

gate = Always()
with intercepting(), passing_through(gate):
    text = httpx.get("https://api.example.com/x", verify=False).text
    print(httpx is httpx2, text, len(gate.requests))
"""


def test_httpx_that_is_httpx2_is_patched_once() -> None:
    done = python(ALIASED)

    assert (done.stdout, done.stderr) == ("True one 1\n", "")


def test_what_is_patched_is_told() -> None:
    before = {library.library: library.way for library in patched()}
    with intercepting():
        during = {library.library: library.way for library in patched()}
    versions = {library.library: library.version for library in patched()}

    assert set(before.values()) == {""}
    assert during == {
        "httpx2": (
            "HTTPTransport.handle_request, AsyncHTTPTransport.handle_async_request, "
            "httpx2._transports.default.create_ssl_context"
        ),
        "httpx": (
            "HTTPTransport.handle_request, AsyncHTTPTransport.handle_async_request, "
            "httpx._transports.default.create_ssl_context"
        ),
        "aiohttp": "BaseConnector.connect",
        "urllib3": "HTTPConnection.connect, HTTPSConnection.connect",
        "http.client": (
            "HTTPConnection.putrequest, HTTPConnection.connect, HTTPSConnection.connect"
        ),
    }
    assert versions["httpx2"] == httpx2.__version__


@pytest.mark.parametrize("library", [httpx, httpx2])
def test_usual_certificates_are_loaded_once_for_all_clients(
    library: Any, monkeypatch: pytest.MonkeyPatch, tmp_path: Path
) -> None:
    """They take longer than a turn, and each conversation may make its clients anew."""
    loads: list[Any] = []
    load = ssl.SSLContext.load_verify_locations

    def noted(context: Any, *args: Any, **options: Any) -> None:
        loads.append(context)
        load(context, *args, **options)

    monkeypatch.setattr(ssl.SSLContext, "load_verify_locations", noted)
    with intercepting():
        library.Client().close()
        loads.clear()
        for client in (library.Client, library.AsyncClient, library.Client):
            client()
        assert loads == []
        library.HTTPTransport(verify=library.create_ssl_context())
        assert len(loads) == 1  # A context of the user's own is the user's.
        certificates = tmp_path / "certificates.pem"
        certificates.write_text(Path(certifi.where()).read_text("utf-8"), "utf-8")
        monkeypatch.setenv("SSL_CERT_FILE", str(certificates))
        library.Client()
        assert len(loads) == 2
    library.Client()
    assert len(loads) == 3


def test_nested_interceptions_are_undone_by_the_last() -> None:
    before = (httpx.HTTPTransport.handle_request, list(sys.meta_path))
    with intercepting():
        inside = httpx.HTTPTransport.handle_request
        with intercepting():
            pass
        still = httpx.HTTPTransport.handle_request

    assert inside is still is not before[0]
    assert (httpx.HTTPTransport.handle_request, list(sys.meta_path)) == before
