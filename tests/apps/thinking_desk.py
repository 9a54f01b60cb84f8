"""A desk that looks something up with a model that thinks, and sends the thinking back, or not."""

from __future__ import annotations

from typing import Any

import anthropic
import openai

SYSTEM = "You help."
TOOLS: Any = [{"name": "look", "input_schema": {"type": "object"}}]


def keeps(text: str) -> str:
    """Sends back all that the model said."""
    return _answer(text, lambda blocks: blocks)


def drops(text: str) -> str:
    """Sends back all but the thinking, which the provider refuses."""
    return _answer(text, lambda blocks: [block for block in blocks if block["type"] != "thinking"])


def _answer(text: str, sent_back: Any) -> str:
    client = anthropic.Anthropic()
    messages: Any = [{"role": "user", "content": text}]
    while True:
        reply = client.messages.create(
            model="claude-sonnet-5", max_tokens=100, system=SYSTEM, tools=TOOLS, messages=messages
        )
        blocks = [block.model_dump(exclude_none=True) for block in reply.content]
        calls = [block["id"] for block in blocks if block["type"] == "tool_use"]
        if not calls:
            return "".join(block["text"] for block in blocks if block["type"] == "text")
        results = [{"type": "tool_result", "tool_use_id": c, "content": "sunny"} for c in calls]
        messages += [
            {"role": "assistant", "content": sent_back(blocks)},
            {"role": "user", "content": results},
        ]


def sure(text: str) -> str:
    """Says how sure the model was of its first token."""
    completion = _chat(text, logprobs=True, top_logprobs=2)
    logprobs = completion.choices[0].logprobs
    assert logprobs is not None
    assert logprobs.content is not None
    return f"{logprobs.content[0].token}: {logprobs.content[0].logprob}"


def unsure(text: str) -> str:
    """Does not ask how sure the model is."""
    return _chat(text).choices[0].message.content or ""


def marked(text: str) -> str:
    """Says by which system the model was served."""
    return _chat(text).system_fingerprint or ""


def _chat(text: str, **more: Any) -> Any:
    messages: Any = [{"role": "system", "content": SYSTEM}, {"role": "user", "content": text}]
    return openai.OpenAI().chat.completions.create(model="gpt-5-mini", messages=messages, **more)


def goes_on(text: str) -> str:
    """Asks twice over the Responses interface, the second time by the first response's id."""
    client = openai.OpenAI()
    first = client.responses.create(model="gpt-5-mini", instructions=SYSTEM, input=text)
    second = client.responses.create(
        model="gpt-5-mini", instructions=SYSTEM, input="And?", previous_response_id=first.id
    )
    return second.output_text
