"""Recording of a provider's response, real or replayed."""

from __future__ import annotations

import msgspec

from simkit.adapters.activations import Run
from simkit.adapters.output_calls import output_of
from simkit.adapters.trace_recorder import TraceRecorder
from simkit.capture.cassettes.encodings import NotDecodable, decoded
from simkit.core.errors import WireInvalid
from simkit.core.messages import Fails, Message, as_json
from simkit.providers.chains import Chains
from simkit.providers.failures import FAILURES
from simkit.providers.http import HttpAnswer, HttpRequest, NoResponse, header
from simkit.providers.values import ParsedRequest, Protocol


class ModelCall(msgspec.Struct, frozen=True):
    """One intercepted model call: its run, its parsed request, its protocol."""

    id: str
    run: Run
    model_request: ParsedRequest
    protocol: Protocol
    request: HttpRequest
    chains: Chains
    """The contexts that later requests may continue."""


def record_answer(
    call: ModelCall, answer: HttpAnswer, recorder: TraceRecorder, is_marked: bool
) -> Fails | None:
    """Record a provider's answer; return the failure, if it is one.

    ``is_marked``: user code itself reports the end of the run.
    """
    run = call.run
    fails, partial = None, ""
    if isinstance(answer, NoResponse):
        fails = Fails(answer.kind, FAILURES[answer.kind].status, answer.message)
    else:
        encodings = header(answer.headers, "content-encoding")
        try:
            plain = msgspec.structs.replace(answer, chunks=decoded(answer.chunks, encodings))
            parsed_answer = call.protocol.parse_response(plain, call.model_request)
            fails, partial = parsed_answer.error, parsed_answer.message.content
        except (WireInvalid, NotDecodable) as problem:
            fails = Fails("malformed_response", answer.status, str(problem))
    if fails is not None:
        recorder.failed(
            run, call.id, fails.kind, fails.status, fails.message, fails.retry_after, partial
        )
        return fails
    call.chains.remember(call.protocol, plain, call.model_request, parsed_answer.message)
    is_json = as_json(parsed_answer.message.content) is not None
    kind = "calls" if parsed_answer.message.calls else "json" if is_json else "text"
    reply = recorder.replied(run, call.id, parsed_answer.message, kind, parsed_answer.usage)
    if not is_marked:
        concluded(recorder, run, reply)
    return None


def concluded(recorder: TraceRecorder, run: Run, message: Message) -> None:
    """End an unannotated run when its model has given its output or passed control."""
    if any(call.is_handoff for call in message.calls):
        recorder.end_run(run, "handed_off")
    elif not message.calls:
        recorder.end_run(run)
    elif all(call.name in run.output_tools for call in message.calls):
        recorder.end_run(run, output=output_of(message.calls[0], run.output_tools))
