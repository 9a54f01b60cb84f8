"""A desk that says in its prompt what day it is, and gives out tickets."""

from __future__ import annotations

import random
import time
from dataclasses import dataclass, field
from datetime import date, datetime
from uuid import UUID, uuid4

from openai import OpenAI

import simkit

client = OpenAI()
STARTED = datetime.now()  # noqa: DTZ005 - what users write
MODULE_ID = uuid4()


@dataclass
class Ticket:
    """One request."""

    id: UUID = field(default_factory=uuid4)
    opened: datetime = field(default_factory=datetime.now)


class Desk:
    """Answers with a ticket."""

    def __init__(self) -> None:
        self.opened = time.time()

    def run(self, text: str) -> str:
        ticket, began = Ticket(), time.perf_counter()
        system = f"You are the desk. Today is {date.today():%A, %d %B %Y}."  # noqa: DTZ011
        completion = client.chat.completions.create(
            model="m",
            messages=[{"role": "system", "content": system}, {"role": "user", "content": text}],
        )
        simkit.state(
            ticket=str(ticket.id), opened=ticket.opened.isoformat(),
            took=round(time.perf_counter() - began, 3), age=time.time() - self.opened,
            queue=random.randrange(1_000), imported=str(STARTED), of_module=str(MODULE_ID),
        )  # fmt: skip
        return completion.choices[0].message.content or ""
