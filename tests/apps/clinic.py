"""A clinic on the plain Anthropic client, asynchronous and streamed, which says who works."""

from __future__ import annotations

import asyncio
from typing import Any

from anthropic import AsyncAnthropic

import simkit

MODEL = "claude-sonnet-5"


def record_symptom(name: str, days: int) -> dict[str, Any]:
    """Adds a symptom to the patient's record."""
    return {"recorded": name, "days": days}


SYMPTOM = {
    "name": "record_symptom",
    "description": "Adds a symptom to the record.",
    "input_schema": {
        "type": "object",
        "properties": {"name": {"type": "string"}, "days": {"type": "integer"}},
        "required": ["name", "days"],
    },
}


def build() -> Clinic:
    """Builds a clinic for one patient."""
    return Clinic(AsyncAnthropic())


class Clinic:
    """One patient's conversation: intake asks, two reviewers look at the record at once."""

    def __init__(self, client: AsyncAnthropic) -> None:
        self.client = client
        self.messages: list[Any] = []
        self.record: list[dict[str, Any]] = []

    async def __call__(self, text: str) -> str:
        self.messages.append({"role": "user", "content": text})
        answer = await self.intake()
        if "review" in answer:
            simkit.handoff("pharmacist", payload={"symptoms": self.record}, source="intake")
            simkit.handoff("nurse", payload={"symptoms": self.record}, source="intake")
            views = await asyncio.gather(self.review("pharmacist"), self.review("nurse"))
            answer = " ".join(views)
        self.messages.append({"role": "assistant", "content": answer})
        return answer

    @simkit.agent("intake")
    async def intake(self) -> str:
        """Asks the patient, and records what is said."""
        messages = list(self.messages)
        while True:
            async with self.client.messages.stream(
                model=MODEL, max_tokens=500, system="You take patients in.",
                messages=messages, tools=[SYMPTOM],
            ) as stream:  # fmt: skip
                message = await stream.get_final_message()
            calls = [block for block in message.content if block.type == "tool_use"]
            if not calls:
                return "".join(b.text for b in message.content if b.type == "text")
            results = []
            for call in calls:
                result = record_symptom(**call.input)
                self.record.append(result)
                results.append(
                    {"type": "tool_result", "tool_use_id": call.id, "content": str(result)}
                )
            simkit.state(symptoms=[item["recorded"] for item in self.record])
            messages += [
                {"role": "assistant", "content": [b.model_dump() for b in message.content]},
                {"role": "user", "content": results},
            ]

    async def review(self, agent: str) -> str:
        """Lets a reviewer look at the record, and at nothing that was said."""
        async with simkit.agent(agent):
            message = await self.client.messages.create(
                model=MODEL, max_tokens=500, system=f"You are the {agent}.",
                messages=[{"role": "user", "content": f"Record: {self.record}"}],
            )  # fmt: skip
        return "".join(block.text for block in message.content if block.type == "text")
