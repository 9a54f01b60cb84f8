"""A provider in the process that records from it: its threads answer while the run waits."""

from __future__ import annotations

import textwrap
from pathlib import Path

import pytest

from tests.cli.test_record import call

APP = """
    import json
    import socket
    import threading
    import urllib.request
    from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer


    def answer(text):
        message = {"role": "assistant", "content": "You said " + text}
        return json.dumps({
            "object": "chat.completion", "id": "c1", "created": 0, "model": "m",
            "choices": [{"index": 0, "message": message, "finish_reason": "stop"}],
        }).encode()


    class Provider(BaseHTTPRequestHandler):
        protocol_version = "HTTP/1.1"  # The connection is kept, and its thread with it.

        def do_POST(self):
            asked = json.loads(self.rfile.read(int(self.headers["content-length"])))
            said = answer(asked["messages"][-1]["content"])
            self.send_response(200)
            self.send_header("content-type", "application/json")
            self.send_header("content-length", str(len(said)))
            self.end_headers()
            self.wfile.write(said)

        def log_message(self, *args):
            pass


    def threading_server():
        server = ThreadingHTTPServer(("127.0.0.1", 0), Provider)
        threading.Thread(target=server.serve_forever, daemon=True).start()
        return server.server_port


    def by_hand():
        listener = socket.create_server(("127.0.0.1", 0))
        threading.Thread(target=accept, args=(listener,), daemon=True).start()
        return listener.getsockname()[1]


    def accept(listener):
        while True:
            connection, _ = listener.accept()
            threading.Thread(target=serve, args=(connection,), daemon=True).start()


    def serve(connection):
        with connection, connection.makefile("rb") as file:
            size = 0
            while (line := file.readline().strip().lower()):
                name, _, value = line.partition(b":")
                size = int(value) if name == b"content-length" else size
            said = answer(json.loads(file.read(size))["messages"][-1]["content"])
            head = (
                b"HTTP/1.1 200 OK\\r\\ncontent-type: application/json\\r\\n"
                b"connection: close\\r\\ncontent-length: %d\\r\\n\\r\\n" % len(said)
            )
            connection.sendall(head + said)


    ports = []


    def ask(text):
        if not ports:
            ports.append(SERVER())
        said = [{"role": "system", "content": "You answer."}, {"role": "user", "content": text}]
        request = urllib.request.Request(
            f"http://127.0.0.1:{ports[0]}/v1/chat/completions",
            json.dumps({"model": "m", "messages": said}).encode(),
            {"content-type": "application/json"},
        )
        with urllib.request.urlopen(request) as response:
            return json.loads(response.read())["choices"][0]["message"]["content"]
"""
SCENARIO = """
    version: 1
    scenario: the desk answers
    pipeline: desk:ask
    app: {path: [.]}
    agents: {desk: {system: You answer.}}
    cassette: desk
    turns:
      - {user: Hello, expect: {reply: You said Hello}}
      - {user: Again, expect: {reply: You said Again}}
"""

TEXT = """

    import LIBRARY

    client = LIBRARY.AsyncClient()


    async def ask_kept(text):
        if not ports:
            ports.append(threading_server())
        said = [{"role": "system", "content": "You answer."}, {"role": "user", "content": text}]
        response = await client.post(
            f"http://127.0.0.1:{ports[0]}/v1/chat/completions",
            json={"model": "m", "messages": said},
        )
        return response.json()["choices"][0]["message"]["content"]
"""


@pytest.mark.parametrize("library", ["httpx", "httpx2"])
def test_a_client_that_is_kept_over_scenarios_is_recorded_in_each(
    library: str, tmp_path: Path
) -> None:
    """Each scenario has an event loop; a connection of one that is over serves no other."""
    pytest.importorskip(library)
    (tmp_path / "pyproject.toml").touch()
    app = textwrap.dedent(APP + TEXT).replace("LIBRARY", library)
    (tmp_path / "desk.py").write_text(app.replace("SERVER()", "0"), encoding="utf-8")
    text = textwrap.dedent(SCENARIO).replace("desk:ask", "desk:ask_kept")
    other = text.replace("the desk answers", "it answers again").replace("Hello", "Good day")
    (tmp_path / "desk.scenario.yaml").write_text(f"{text}---{other}", encoding="utf-8")

    done = call(tmp_path, "record", "desk.scenario.yaml", "-q")

    assert done.out.startswith("2 scenarios: 2 held"), done.out + done.err
    assert call(tmp_path, "replay", "desk.scenario.yaml", "-q").code == 0


@pytest.mark.parametrize("server", ["threading_server", "by_hand"])
def test_a_server_of_threads_in_the_same_process_is_recorded_at_once(
    server: str, tmp_path: Path
) -> None:
    (tmp_path / "pyproject.toml").touch()
    app = textwrap.dedent(APP).replace("SERVER()", f"{server}()")
    (tmp_path / "desk.py").write_text(app, encoding="utf-8")
    (tmp_path / "desk.scenario.yaml").write_text(textwrap.dedent(SCENARIO), encoding="utf-8")

    done = call(tmp_path, "record", "desk.scenario.yaml")

    assert "did not come to rest" not in done.out
    assert (done.code, done.err) == (0, "")
    assert "recorded: 2 interactions in cassettes/desk.yaml" in done.out
    assert call(tmp_path, "replay", "desk.scenario.yaml", "-q").code == 0
