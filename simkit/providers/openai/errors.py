"""Failures of OpenAI's interfaces: status, headers and body of each, and their parsing.

Source: https://platform.openai.com/docs/guides/error-codes, and errors in logs of clients.
"""

from __future__ import annotations

from typing import Final

from simkit.core.messages import Fails, JsonValue, Usage
from simkit.providers.body_reader import Record, json_text
from simkit.providers.failures import KINDS_BY_CODE, WORDS, Words, kind_of_status
from simkit.providers.http import Headers
from simkit.providers.skeleton import broken_call, retry_headers
from simkit.providers.values import JSON, OutgoingReply, ParsedRequest

OWN: Final = WORDS["openai"]


def error_body(fails: Fails, words: Words, context_field: str) -> dict[str, JsonValue]:
    """Return a failure's body; ``context_field`` is the field that holds the context."""
    return {
        "message": words.message,
        "type": words.type,
        "param": context_field if fails.kind == "context_overflow" else None,
        "code": words.code,
    }


def error_headers(serial: str, fails: Fails) -> Headers:
    """Return the headers of a response with an error status."""
    return (*JSON, ("x-request-id", f"req_{serial}"), *retry_headers(fails))


def malformed_reply(serial: str, request: ParsedRequest) -> OutgoingReply:
    """Break the output if the request asks for one, else a call's arguments, else the text."""
    return OutgoingReply(serial, broken_call(serial, request, "call_"), Usage(0, 0))


def error_in(body: Record, status: int) -> Fails:
    """Parse the body of a response with an error status.

    Compatible servers also send {"error": "…"}, {"message": "…"} and {"detail": "…"}.
    """
    return fails_in(body.get("error") or body, status)


def fails_in(error: JsonValue, status: int) -> Fails:
    """Parse an error body, or an error inside a stream."""
    record: Record = error if isinstance(error, dict) else {"message": error}
    message = record.get("message") or record.get("detail")
    text = message if isinstance(message, str) else json_text(message or record)
    for word in (record.get("code"), record.get("type")):
        if isinstance(word, str) and word in KINDS_BY_CODE:
            return Fails(KINDS_BY_CODE[word], status, text)
    return Fails(kind_of_status(status), status, text)
