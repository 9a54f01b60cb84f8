"""Real MCP servers: recorded into the cassette, replayed without them, and their ends."""

from __future__ import annotations

import json
import sys
import threading
from collections.abc import Iterator
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest

from simkit import SourceError
from simkit.capture.http import stdio_servers
from simkit.session.execution.recorded import Recording
from simkit.session.simulate import record, simulate
from simkit.spec.scenario.files import Prepared
from tests.adapters.test_servers import AGENTS, ASK, BY_HAND, CLIENTS, problems_of
from tests.recording import prepared

if sys.platform == "win32":
    pytest.skip("processes are stood in for where there are POSIX pipes", allow_module_level=True)

NOW = "2026-01-05T09:00:00Z"
BY_HAND_SERVER = """
import json, sys

RETURNS = {"type": "object", "properties": {"result": {"type": "string"}}}
TOOL = {"name": "read_file", "description": "Read a file.", "outputSchema": RETURNS,
        "inputSchema": {"type": "object", "properties": {"path": {"type": "string"}}}}
ANSWERS = {
    "initialize": {"protocolVersion": "2025-06-18", "capabilities": {"tools": {}},
                   "serverInfo": {"name": "files", "version": "1"}},
    "tools/list": {"tools": [TOOL]},
    "tools/call": {"content": [{"type": "text", "text": "Buy milk."}],
                   "structuredContent": {"result": "Buy milk."}},
}
for line in sys.stdin:
    asked = json.loads(line)
    if "id" in asked:
        method = asked["method"]
        if method == DIES:
            print("out of memory", file=sys.stderr, flush=True)
            sys.exit(3)
        said = {"result": ANSWERS[method]} if method in ANSWERS else {
            "error": {"code": -32601, "message": "Method not found"}}
        print(json.dumps({"jsonrpc": "2.0", "id": asked["id"], **said}))
        sys.stdout.flush()
"""
READS = """\
turns:
  - user: What do my notes say?
    replies: {reader: [{calls: [read_file: {path: notes.txt}]}, You buy milk.]}
    expect:
      reply: You buy milk.
      tool_calls: [{agent: reader, tool: read_file, server: files, args: {path: notes.txt}}]
      context: {"reader[1]": {includes: [{tool: {$contains: Buy milk.}}]}}
"""
RECORDED = "cassette: notes\nservers: {files: {match: {$contains: server.py}, mcp: recorded}}\n"
REAL = RECORDED.replace("recorded", "real").replace("cassette: notes\n", "")


def scenario(
    folder: Path, rest: str, code: str = BY_HAND, server: str = BY_HAND_SERVER, entry: str = "run"
) -> Prepared:
    """A scenario whose code starts a real server."""
    command = repr([sys.executable, str(folder / "server.py")])
    for name in ('["npx", "-y", "@acme/server-files", "/data"]',):
        code = code.replace(name, command)
    code = code.replace('"npx"', repr(sys.executable))
    for words in ('["-y", "@acme/server-files"]', '["@acme/server-files"]'):
        code = code.replace(words, repr([str(folder / "server.py")]))
    (folder / "reading.py").write_text(code, encoding="utf-8")
    if server:
        (folder / "server.py").write_text(server.replace("DIES", "None"), encoding="utf-8")
    file = folder / "a.scenario.yaml"
    rules = "agents: {reader: {model: m}}\napp: {path: [.], fresh: true}\n"
    head = f"version: 1\nscenario: a\npipeline: reading:{entry}\n{rules}"
    file.write_text(head + rest, encoding="utf-8")
    return prepared(file)


def digest_of(case: Prepared, how: Recording | None = None) -> str:
    """The digest of a run that breaks nothing."""
    outcome = simulate(case) if how is None else record(case, how).outcome
    assert problems_of(outcome) == []
    return outcome.trace.digest()


@pytest.mark.parametrize("code", CLIENTS.values(), ids=CLIENTS)
def test_a_recorded_server_is_replayed_without_its_command(tmp_path: Path, code: str) -> None:
    real = digest_of(scenario(tmp_path, REAL + READS, code))
    recorded = scenario(tmp_path, RECORDED + READS, code)
    assert digest_of(recorded, Recording("all", NOW)) == real
    (tmp_path / "server.py").unlink()

    replayed = [digest_of(scenario(tmp_path, RECORDED + READS, code, "")) for _ in "12"]
    assert replayed == [real, real]


class OverHttp(BaseHTTPRequestHandler):
    """The same server by hand, over streamable HTTP: as JSON, or as a stream."""

    streams, dies = False, ""

    def do_POST(self) -> None:
        """Answer a request, or accept a notification."""
        request = json.loads(self.rfile.read(int(self.headers["content-length"])))
        if self.dies and request["method"] == "tools/call":
            status, text = (503, b"busy") if "503" in self.dies else (200, b"")
            self.wfile.write(b"HTTP/1.0 %d X\r\ncontent-length: 4\r\n\r\n%b" % (status, text))
            return
        names = {"sys": SimpleNamespace(stdin=[json.dumps(request)], stdout=sys.stdout)}
        answers: list[str] = []
        source = BY_HAND_SERVER.replace("import json, sys", "import json").replace("DIES", "None")
        exec(source, {**names, "print": answers.append, "sys": names["sys"]})
        body = "".join(f"event: message\ndata: {each}\n\n" for each in answers)
        kind = "text/event-stream" if self.streams else "application/json"
        encoded = (body if self.streams else "".join(answers)).encode()
        self.send_response(200 if answers else 202)
        for name, value in (
            ("content-type", kind),
            ("content-length", str(len(encoded))),
            ("mcp-session-id", "s-1"),
        ):
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(encoded)

    def log_message(self, format: str, *args: Any) -> None:
        """Print nothing."""


@pytest.fixture
def address() -> Iterator[str]:
    """The address of the server over HTTP."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), OverHttp)
    thread = threading.Thread(target=server.serve_forever, args=(0.01,))
    thread.start()
    yield f"http://127.0.0.1:{server.server_address[1]}/files/mcp"
    server.shutdown()
    server.server_close()
    thread.join()


HTTP_BY_HAND = f"""{ASK}
import httpx

def post(method, **params):
    asked = {{"jsonrpc": "2.0", "id": 1, "method": method, "params": params}}
    said = httpx.post(ADDRESS, json=asked, headers={{"accept": ACCEPT}}).text
    return json.loads(said.partition("data: ")[2] or said)["result"]

def call(name, args):
    return post("tools/call", name=name, arguments=args)["content"][0]["text"]

def run(message):
    post("initialize", protocolVersion="2025-06-18", capabilities={{}}, clientInfo={{}})
    return ask(message, post("tools/list")["tools"], call)
"""


@pytest.mark.parametrize("streams", [False, True])
@pytest.mark.parametrize(
    ("code", "entry"),
    [
        pytest.param(HTTP_BY_HAND, "run", id="by hand"),
        pytest.param(AGENTS, "over_http", id="agents", marks=pytest.mark.slow),
    ],
)
def test_a_recorded_server_over_http_is_replayed_without_a_socket(
    tmp_path: Path,
    address: str,
    monkeypatch: pytest.MonkeyPatch,
    code: str,
    entry: str,
    streams: bool,
) -> None:
    monkeypatch.setattr(OverHttp, "streams", streams)
    accept = "text/event-stream" if streams else "application/json"
    code = code.replace("ADDRESS", repr(address)).replace("ACCEPT", repr(accept))
    code = code.replace("https://files.example.com/mcp", address)
    rest = RECORDED.replace("match: {$contains: server.py}, ", "") + READS

    live = rest.replace("recorded", "real").replace("cassette: notes\n", "")

    real = digest_of(scenario(tmp_path, live, code, "", entry))
    assert digest_of(scenario(tmp_path, rest, code, "", entry), Recording("all", NOW)) == real
    moved = code.replace(address, "https://files.example.com/mcp")

    assert digest_of(scenario(tmp_path, rest, moved, "", entry)) == real


@pytest.mark.parametrize("how", ["connection broke before the answer", "HTTP status 503: busy"])
def test_a_real_server_over_http_that_ends_is_the_cause_of_what_follows(
    tmp_path: Path, address: str, monkeypatch: pytest.MonkeyPatch, how: str
) -> None:
    monkeypatch.setattr(OverHttp, "dies", how)
    code = HTTP_BY_HAND.replace("ADDRESS", repr(address)).replace("ACCEPT", "'application/json'")
    rest = REAL.replace("match: {$contains: server.py}, ", "") + READS

    problem, *_ = problems_of(simulate(scenario(tmp_path, rest, code, "")))

    assert "server `files` ended in the call of read_file: " in problem
    assert how in problem


def test_a_recording_says_what_the_server_lists_otherwise_today(tmp_path: Path) -> None:
    record(scenario(tmp_path, RECORDED + READS), Recording("all", NOW))
    other = BY_HAND_SERVER.replace("Read a file.", "Read a file, and mail it.")
    other = other.replace(
        '"path": {"type": "string"}', '"path": {"type": "string", "title": "Path"}'
    )

    done = record(scenario(tmp_path, RECORDED + READS, server=other), Recording("verify", NOW))

    (problem, *_) = problems_of(done.outcome)
    assert "server 'files' in turn 1 gets another answer than the recorded one" in problem
    assert "~ tool `read_file`, description: Read a file. → Read a file, and mail it." in problem
    assert '~ tool `read_file`, inputSchema: {"properties":{"path":{"type":"string"}}' in problem


def test_what_was_not_recorded_is_an_error_with_the_nearest_recording(tmp_path: Path) -> None:
    record(scenario(tmp_path, RECORDED + READS), Recording("all", NOW))
    other = READS.replace("[read_file: {path: notes.txt}]", "[read_file: {path: diary.txt}]")

    problem, *_ = problems_of(simulate(scenario(tmp_path, RECORDED + other)))

    assert "no recording answers server 'files' in turn 1: MCP files/tools/call" in problem
    assert "interactions[2]" in problem
    assert "diary.txt" in problem


def test_a_result_of_the_scenario_replaces_one_of_a_real_server(tmp_path: Path) -> None:
    replaced = READS.replace(
        "    replies", "    tool_results: {read_file: Buy bread.}\n    replies"
    )
    replaced = replaced.replace("{$contains: Buy milk.}", "{$contains: Buy bread.}")

    assert problems_of(simulate(scenario(tmp_path, REAL + replaced))) == []


ENDS = [("initialize", "at its start"), ("tools/call", "in the call of read_file")]


@pytest.mark.parametrize(("method", "place"), ENDS)
def test_a_real_server_that_ends_is_named_with_its_last_lines_also_in_replay(
    tmp_path: Path, method: str, place: str
) -> None:
    server = BY_HAND_SERVER.replace("DIES", repr(method))
    code = BY_HAND.replace("assert server.process.wait(60) == 0", "server.process.wait(60)")
    how = Recording("all", NOW, keeps_failed=True)
    done = record(scenario(tmp_path, RECORDED + READS, code, server), how)
    replayed = simulate(scenario(tmp_path, RECORDED + READS, code, ""))

    real = simulate(scenario(tmp_path, REAL + READS, code, server))

    text = f"server `files` ended {place}: exit code 3, and said last: out of memory"
    assert all(text in problems_of(each)[0] for each in (done.outcome, replayed, real))


@pytest.mark.parametrize(("method", "place"), ENDS)
def test_a_real_server_that_is_silent_is_ended_and_named(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, method: str, place: str
) -> None:
    monkeypatch.setattr(stdio_servers, "PATIENCE_S", 0.5)
    server = BY_HAND_SERVER.replace("DIES", repr(method)).replace("sys.exit(3)", "input()")
    code = BY_HAND.replace("assert server.process.wait(60) == 0", "server.process.wait()")

    problem, *others = problems_of(simulate(scenario(tmp_path, REAL + READS, code, server)))

    assert f"server `files` ended {place}: no answer for 0.5 s, signal 9, and said" in problem
    assert problem.count("server `files` ended") == 1
    assert all("follows=''" not in other for other in others)


@pytest.mark.parametrize("host", ["169.254.169.254", "[fd00:ec2::254]", "metadata.google.internal"])
def test_no_recording_asks_a_cloud_for_its_keys(tmp_path: Path, host: str) -> None:
    code = f'import httpx\n\ndef run(message):\n    httpx.get("http://{host}/", timeout=1)'
    rest = "cassette: notes\nturns: [{user: hi}]\n"

    done = record(scenario(tmp_path, rest, code, ""), Recording("all", NOW))

    (problem, *_) = problems_of(done.outcome)
    assert f"raised ConnectError: simkit: {host.strip('[]')} gives a machine's keys" in problem


def test_no_recording_asks_a_provider_to_count_tokens_of_an_agent_that_is_scripted(
    tmp_path: Path,
) -> None:
    counts = "https://api.openai.com/v1/responses/input_tokens"
    code = f"""{ASK}
import httpx

def run(message):
    told = httpx.post({counts!r}, json={{"model": "m", "input": message}}, timeout=1).json()
    return f"{{ask(message, [], None)}} {{told['input_tokens']}}"
"""
    turns = "turns: [{user: What?, replies: {reader: [Done.]}, expect: {reply: Done. 2}}]\n"
    path = scenario(tmp_path, f"cassette: notes\n{turns}", code, "")

    assert problems_of(record(path, Recording("all", NOW)).outcome) == []


def test_a_recorded_server_needs_a_cassette(tmp_path: Path) -> None:
    rest = RECORDED.replace("cassette: notes\n", "") + READS
    with pytest.raises(SourceError, match=r"server `files` is recorded, and .* has no `cassette`"):
        simulate(scenario(tmp_path, rest))
