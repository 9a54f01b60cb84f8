"""A desk that books rooms, asked through vendors' own clients and through frameworks on them."""

from __future__ import annotations

import asyncio
import json
import os
from collections.abc import Callable
from typing import Any

PROMPT = "You are the desk."
SCHEMA = {"type": "object", "properties": {"city": {"type": "string"}}, "required": ["city"]}
TOOL: Any = {
    "type": "function",
    "function": {"name": "book", "description": "Books a room", "parameters": SCHEMA},
}
CLAUDE = "us.anthropic.claude-sonnet-4-20250514-v1:0"


def book(city: str) -> str:
    """Book a room."""
    return json.dumps({"booked": city})


def converse(text: str, stream: bool = False) -> str:
    import boto3

    client = boto3.client("bedrock-runtime")
    spec = {"name": "book", "description": "Books", "inputSchema": {"json": SCHEMA}}
    messages: list[Any] = [{"role": "user", "content": [{"text": text}]}]
    while True:
        request = {
            "modelId": CLAUDE, "messages": messages, "system": [{"text": PROMPT}],
            "toolConfig": {"tools": [{"toolSpec": spec}]},
        }  # fmt: skip
        if stream:
            content = _blocks(client.converse_stream(**request)["stream"])
        else:
            content = client.converse(**request)["output"]["message"]["content"]
        messages.append({"role": "assistant", "content": content})
        calls = [block["toolUse"] for block in content if "toolUse" in block]
        if not calls:
            return str(content[-1]["text"])
        results = [
            {"toolUseId": call["toolUseId"], "content": [{"text": book(**call["input"])}]}
            for call in calls
        ]
        messages.append({"role": "user", "content": [{"toolResult": each} for each in results]})


def _blocks(events: Any) -> list[Any]:
    blocks: dict[int, Any] = {}
    for event in events:
        if "contentBlockStart" in event:
            start = event["contentBlockStart"]
            call = start["start"]["toolUse"]
            blocks[start["contentBlockIndex"]] = {"toolUse": {**call, "input": ""}}
        elif "contentBlockDelta" in event:
            part = event["contentBlockDelta"]
            block = blocks.setdefault(part["contentBlockIndex"], {"text": ""})
            if "text" in part["delta"]:
                block["text"] += part["delta"]["text"]
            else:
                block["toolUse"]["input"] += part["delta"]["toolUse"]["input"]
    for block in blocks.values():
        if "toolUse" in block:
            block["toolUse"]["input"] = json.loads(block["toolUse"]["input"])
    return list(blocks.values())


def converse_stream(text: str) -> str:
    return converse(text, stream=True)


def ollama(text: str, stream: bool = False) -> str:
    import ollama

    messages: list[Any] = [
        {"role": "system", "content": PROMPT}, {"role": "user", "content": text}
    ]  # fmt: skip
    while True:
        with ollama.Client() as client:
            answer: Any = client.chat("llama3.2", messages, tools=[TOOL], stream=stream)
            parts = list(answer) if stream else [answer]
        content = "".join(part.message.content or "" for part in parts)
        calls = [call.model_dump() for part in parts for call in part.message.tool_calls or []]
        messages.append({"role": "assistant", "content": content, "tool_calls": calls})
        if not calls:
            return content
        for call in calls:
            result = book(**call["function"]["arguments"])
            messages.append({"role": "tool", "content": result, "tool_name": "book"})


def ollama_stream(text: str) -> str:
    return ollama(text, stream=True)


def generate(text: str) -> str:
    import ollama

    return str(ollama.generate("llama3.2", text, system=PROMPT).response)


def invoke(text: str) -> str:
    import anthropic

    client = anthropic.AnthropicBedrock()
    user: Any = [{"role": "user", "content": text}]
    answer = client.messages.create(model=CLAUDE, max_tokens=9, system=PROMPT, messages=user)
    return str(answer.content[0].text)


def invoke_stream(text: str) -> str:
    import anthropic

    user: Any = [{"role": "user", "content": text}]
    request: Any = {"model": CLAUDE, "max_tokens": 9, "system": PROMPT, "messages": user}
    with anthropic.AnthropicBedrock().messages.stream(**request) as stream:
        return "".join(stream.text_stream)


def cohere(text: str, stream: bool = False) -> str:
    import cohere

    with cohere.ClientV2(base_url=os.environ.get("CO_API_URL")) as client:  # Else it is read once.
        return _cohere_loop(client, text, stream)


def _cohere_loop(client: Any, text: str, stream: bool) -> str:
    messages: list[Any] = [
        {"role": "system", "content": PROMPT}, {"role": "user", "content": text}
    ]  # fmt: skip
    while True:
        request: Any = {"model": "command-a-03-2025", "messages": messages, "tools": [TOOL]}
        if stream:
            plan, content, calls = _pieces(client.chat_stream(**request))
        else:
            message = client.chat(**request).message
            plan, calls = message.tool_plan or "", [c.dict() for c in message.tool_calls or []]
            content = message.content[0].text if message.content else ""
        if not calls:
            return content
        messages.append({"role": "assistant", "tool_plan": plan, "tool_calls": calls})
        for call in calls:
            document = {"data": book(**json.loads(call["function"]["arguments"]))}
            content = [{"type": "document", "document": document}]
            messages.append({"role": "tool", "tool_call_id": call["id"], "content": content})


def _pieces(events: Any) -> Any:
    plan, content, calls = "", "", list[Any]()
    for event in events:
        if event.type == "content-delta":
            content += event.delta.message.content.text
        elif event.type == "tool-plan-delta":
            plan += event.delta.message.tool_plan
        elif event.type == "tool-call-start":
            calls.append(event.delta.message.tool_calls.dict())
        elif event.type == "tool-call-delta":
            calls[-1]["function"]["arguments"] += event.delta.message.tool_calls.function.arguments
    return plan, content, calls


def cohere_stream(text: str) -> str:
    return cohere(text, stream=True)


def _langchain(model: Any, text: str, stream: bool = False) -> str:
    model = model.bind_tools([book])
    messages: list[Any] = [("system", PROMPT), ("user", text)]
    while True:
        if stream:
            answer = None
            for chunk in model.stream(messages):
                answer = chunk if answer is None else answer + chunk
        else:
            answer = model.invoke(messages)
        messages.append(answer)
        if not answer.tool_calls:
            return str(answer.text)
        from langchain_core.messages import ToolMessage

        messages += [
            ToolMessage(book(**call["args"]), tool_call_id=call["id"]) for call in answer.tool_calls
        ]


def _bedrock_model() -> Any:
    from langchain_aws import ChatBedrockConverse

    return ChatBedrockConverse(model=CLAUDE)


def _ollama_model() -> Any:
    from langchain_ollama import ChatOllama

    return ChatOllama(model="llama3.2")


def _cohere_model() -> Any:
    from langchain_cohere import ChatCohere

    return ChatCohere(model="command-a-03-2025")


def langchain_aws(text: str) -> str:
    return _langchain(_bedrock_model(), text)


def langchain_aws_stream(text: str) -> str:
    return _langchain(_bedrock_model(), text, stream=True)


def langchain_ollama(text: str) -> str:
    return _langchain(_ollama_model(), text)


def langchain_ollama_stream(text: str) -> str:
    return _langchain(_ollama_model(), text, stream=True)


def langchain_cohere(text: str) -> str:
    return _langchain(_cohere_model(), text)


def pydantic_bedrock(text: str) -> str:
    return _pydantic(f"bedrock:{CLAUDE}", text)


def pydantic_cohere(text: str) -> str:
    return _pydantic("cohere:command-a-03-2025", text)


def _pydantic(model: str, text: str) -> str:
    from pydantic_ai import Agent

    agent = Agent(model, instructions=PROMPT, tools=[book])
    return str(asyncio.run(agent.run(text)).output)


def _caught(function: Callable[[str], str]) -> Callable[[str], str]:
    def run(text: str) -> str:
        try:
            return function(text)
        except Exception as problem:
            return f"{type(problem).__name__}: {problem}"

    return run


caught_converse, caught_converse_stream = _caught(converse), _caught(converse_stream)
caught_ollama, caught_ollama_stream = _caught(ollama), _caught(ollama_stream)
caught_invoke = _caught(invoke)
caught_cohere, caught_cohere_stream = _caught(cohere), _caught(cohere_stream)
