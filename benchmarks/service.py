"""The least HTTP service that a tavern test can talk to: it answers every POST alike."""

from __future__ import annotations

import threading
from collections.abc import Iterator
from contextlib import contextmanager
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer

ANSWER = b'{"agents": ["triage", "billing"], "reply": "It is on its way."}'


class _Chat(BaseHTTPRequestHandler):
    protocol_version = "HTTP/1.1"
    # Head and body go out in one piece, and at once: otherwise Nagle's algorithm holds them back.
    wbufsize = -1
    disable_nagle_algorithm = True

    def do_POST(self) -> None:
        self.rfile.read(int(self.headers["Content-Length"]))
        self.send_response(200)
        self.send_header("Content-Type", "application/json")
        self.send_header("Content-Length", str(len(ANSWER)))
        self.end_headers()
        self.wfile.write(ANSWER)

    def log_message(self, format: str, *args: object) -> None:
        """Says nothing: the table alone is printed."""


@contextmanager
def service() -> Iterator[str]:
    """Yields the URL of a service in a thread of this process, so that no child pays for it."""
    with ThreadingHTTPServer(("127.0.0.1", 0), _Chat) as server:
        thread = threading.Thread(target=server.serve_forever, daemon=True)
        thread.start()
        try:
            yield f"http://127.0.0.1:{server.server_port}/chat"
        finally:
            server.shutdown()
            thread.join()
