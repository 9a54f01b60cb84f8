"""Messages that a scenario gives: each says all that it is to say, or its file is refused."""

from __future__ import annotations

from typing import Any

from simkit.language.yaml import Document, SourcePath
from simkit.spec.pipeline.written_messages import MessageInvalid, message_of


def check_messages(messages: Any, document: Document, at: SourcePath) -> None:
    """Raise SourceError for the first message in a channel of which something would be lost."""
    is_list = isinstance(messages, (list, tuple))
    if messages is None or (isinstance(messages, dict) and "$set" in messages):
        return
    for place, message in enumerate(messages if is_list else [messages]):
        path = (*at, place) if is_list else at
        try:
            message_of(message)
        except MessageInvalid as problem:
            raise document.error(
                (*path, *problem.path),
                problem.problem,
                word=problem.word,
                known=problem.known,
                advice=problem.advice,
                key=bool(problem.path),
            ) from None
