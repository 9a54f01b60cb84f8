"""A provider, a weather service and a search on loopback, for recordings that need no network."""

from __future__ import annotations

import gzip
import json
import subprocess
import sys
import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from pathlib import Path
from typing import Any
from urllib.parse import urlsplit

ROOT = Path(__file__).parent.parent.parent
PICTURE = b"\x89PNG\r\n\x1a\n\x00\xff\xfe"


class Handler(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"

    def do_GET(self) -> None:
        path = urlsplit(self.path).path
        if path == "/moved":
            self.answer(b"", {"location": "/weather?city=Oslo&key=weather-key-77"}, status=302)
        elif path == "/picture":
            self.answer(PICTURE, {"content-type": "image/png"})
        elif path == "/weather":
            self.send_json({"city": "Oslo", "degrees": 7, "token": "t-1"}, is_gzipped=True)
        else:
            self.send_json({"found": [self.path]}, {"set-cookie": "session=abcdefgh12345678"})

    def do_POST(self) -> None:
        length = int(self.headers.get("content-length") or 0)
        data = json.loads(self.rfile.read(length) or b"{}")
        path = urlsplit(self.path).path
        if path == "/search":
            self.send_json({"found": [data["query"]]})
        elif data.get("model") == "busy":
            self.send_json(
                {"error": {"message": "slow down", "type": "rate_limit_error"}}, status=429
            )
        elif path.endswith("/chat/completions"):
            self.answer_chat(data)
        elif path.endswith("/responses"):
            self.answer_responses(data)
        elif path.endswith("/messages"):
            self.answer_messages(data)
        else:
            self.send_json({"error": {"message": path}}, status=404)

    def answer_chat(self, request: dict[str, Any]) -> None:
        whole = {"id": "chatcmpl-1", "created": 1, "model": "gpt-5"}
        if request.get("stream"):
            deltas = [{"role": "assistant", "content": "It is "}, {"content": "cold."}]
            events = [
                {**whole, "object": "chat.completion.chunk",
                 "choices": [{"index": 0, "delta": delta, "finish_reason": None}]}
                for delta in deltas
            ]  # fmt: skip
            self.send_events([("", event) for event in events], done="[DONE]")
            return
        message: dict[str, Any] = {"role": "assistant", "content": "It is cold."}
        if request.get("tools") and request["messages"][-1]["role"] == "user":
            function = {"name": "weather", "arguments": '{"city": "Oslo"}'}
            call = {"id": "call_1", "type": "function", "function": function}
            message = {"role": "assistant", "content": None, "tool_calls": [call]}
        choice = {"index": 0, "finish_reason": "stop", "message": message}
        self.send_json({**whole, "object": "chat.completion", "choices": [choice]})

    def answer_responses(self, request: dict[str, Any]) -> None:
        text = {"type": "output_text", "text": "It is cold.", "annotations": []}
        item = {"id": "msg_1", "type": "message", "role": "assistant", "status": "completed",
                "content": [text]}  # fmt: skip
        whole = {"id": "resp_1", "object": "response", "created_at": 1, "model": "gpt-5",
                 "status": "completed", "output": [item], "parallel_tool_calls": True,
                 "tool_choice": "auto", "tools": []}  # fmt: skip
        if not request.get("stream"):
            self.send_json(whole)
            return
        delta: Any = {"type": "response.output_text.delta", "item_id": "msg_1", "output_index": 0,
                 "content_index": 0, "sequence_number": 1, "logprobs": [],
                 "delta": "It is cold."}  # fmt: skip
        over: Any = {"type": "response.completed", "sequence_number": 2, "response": whole}
        self.send_events([(event["type"], event) for event in (delta, over)])

    def answer_messages(self, request: dict[str, Any]) -> None:
        usage = {"input_tokens": 3, "output_tokens": 3}
        whole = {"id": "msg_1", "type": "message", "role": "assistant", "model": "claude-x",
                 "stop_sequence": None, "usage": usage}  # fmt: skip
        block = {"type": "text", "text": "It is cold."}
        if not request.get("stream"):
            self.send_json({**whole, "stop_reason": "end_turn", "content": [block]})
            return
        events: list[dict[str, Any]] = [
            {"type": "message_start", "message": {**whole, "stop_reason": None, "content": []}},
            {"type": "content_block_start", "index": 0, "content_block": {**block, "text": ""}},
            *(
                {"type": "content_block_delta", "index": 0,
                 "delta": {"type": "text_delta", "text": text}}
                for text in ("It is ", "cold.")
            ),
            {"type": "content_block_stop", "index": 0},
            {"type": "message_delta", "usage": {"output_tokens": 3},
             "delta": {"stop_reason": "end_turn", "stop_sequence": None}},
            {"type": "message_stop"},
        ]  # fmt: skip
        self.send_events([(event["type"], event) for event in events])

    def send_events(self, events: list[tuple[str, Any]], done: str = "") -> None:
        lines = [
            (f"event: {name}\n" if name else "") + f"data: {json.dumps(event)}\n\n"
            for name, event in events
        ]
        body = "".join([*lines, f"data: {done}\n\n" if done else ""]).encode()
        self.answer(body, {"content-type": "text/event-stream"})

    def send_json(
        self, value: Any, headers: dict[str, str] | None = None, status: int = 200,
        is_gzipped: bool = False,
    ) -> None:  # fmt: skip
        body = json.dumps(value).encode()
        headers = {"content-type": "application/json", **(headers or {})}
        if is_gzipped and "gzip" in self.headers.get("accept-encoding", ""):
            body, headers["content-encoding"] = gzip.compress(body, mtime=0), "gzip"
        self.answer(body, headers, status)

    def answer(self, body: bytes, headers: dict[str, str], status: int = 200) -> None:
        self.send_response(status)
        for name, value in {**headers, "content-length": str(len(body))}.items():
            self.send_header(name, value)
        self.end_headers()
        self.wfile.write(body)

    def log_message(self, format: str, *arguments: object) -> None:
        """Says nothing."""


@contextmanager
def standing_in() -> Iterator[str]:
    """Yields the address of the services while they stand."""
    server = ThreadingHTTPServer(("127.0.0.1", 0), Handler)
    server.daemon_threads = True
    thread = threading.Thread(target=server.serve_forever, args=(0.02,), daemon=True)
    thread.start()
    try:
        yield f"http://127.0.0.1:{server.server_address[1]}"
    finally:
        server.shutdown()
        server.server_close()
        thread.join()


@contextmanager
def standing_outside() -> Iterator[str]:
    """The same in a process of its own, which no control of this one reaches."""
    run = [sys.executable, "-m", "tests.vcr.standin"]
    with subprocess.Popen(run, stdout=subprocess.PIPE, text=True, cwd=ROOT) as process:
        assert process.stdout is not None
        try:
            yield process.stdout.readline().strip()
        finally:
            process.kill()


if __name__ == "__main__":
    with standing_in() as standing:
        print(standing, flush=True)
        threading.Event().wait()
