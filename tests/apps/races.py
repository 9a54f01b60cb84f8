"""Code that is right in one order of answers only: threads, tasks and parallel nodes."""

import asyncio
from collections.abc import Awaitable, Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from threading import Lock
from typing import Any

from langgraph.graph import START, MessagesState, StateGraph
from openai import AsyncOpenAI, OpenAI

CLERKS = "abc"
client, async_client = OpenAI(api_key="sk-test"), AsyncOpenAI(api_key="sk-test")
entries: list[str] = []
"""The clerks in the order in which their answers came."""
ledger = {"total": 0}


def messages(clerk: str, text: str) -> Any:
    return [{"role": "system", "content": f"You are {clerk}."}, {"role": "user", "content": text}]


def begin() -> None:
    entries.clear()
    ledger["total"] = 0


def entries_text() -> str:
    return f"{ledger['total']} {''.join(entries)}"


def ask(clerk: str, text: str) -> None:
    client.chat.completions.create(model="gpt-5-mini", messages=messages(clerk, text))
    entries.append(clerk)


async def ask_in_loop(clerk: str, text: str) -> None:
    await async_client.chat.completions.create(model="gpt-5-mini", messages=messages(clerk, text))
    entries.append(clerk)


def book(clerk: str) -> None:
    """Adds one to the total, with a model call between the reading and the writing."""
    ask(clerk, "Which account?")
    total = ledger["total"]
    ask(clerk, f"The total is {total}. Sure?")
    ledger["total"] = total + 1


async def book_in_loop(clerk: str) -> None:
    await ask_in_loop(clerk, "Which account?")
    total = ledger["total"]
    await ask_in_loop(clerk, f"The total is {total}. Sure?")
    ledger["total"] = total + 1


async def gather_clerks(text: str) -> str:
    begin()
    await asyncio.gather(*map(book_in_loop, CLERKS))
    return entries_text()


def pool_clerks(text: str) -> str:
    begin()
    with ThreadPoolExecutor() as pool:
        list(pool.map(book, CLERKS))
    return entries_text()


def verdict(text: str) -> str:
    """Lets the clerks vote in threads; the verdict is that of the one who answers last."""
    begin()
    verdicts = {}

    def vote(clerk: str) -> None:
        ask(clerk, "Is it paid?")
        verdicts["last"] = clerk

    with ThreadPoolExecutor() as pool:
        list(pool.map(vote, CLERKS))
    return verdicts["last"]


def votes_of_one(text: str) -> str:
    """Lets one clerk answer three questions at once."""
    begin()
    answers: list[str] = []

    def vote(question: str) -> None:
        ask("a", question)
        answers.append(question)

    with ThreadPoolExecutor() as pool:
        list(pool.map(vote, ("who", "what", "when")))
    return " ".join(answers)


async def threads_of_a_loop(text: str) -> str:
    begin()
    await asyncio.gather(*(asyncio.to_thread(book, clerk) for clerk in CLERKS))
    return entries_text()


def in_sequence(text: str) -> str:
    begin()
    for clerk in CLERKS:
        book(clerk)
    return entries_text()


# Clerks who are asked once each, in the ways in which code waits for several


async def told_first(text: str) -> str:
    """Takes the first answer, and gives the other questions up."""
    begin()
    tasks = [asyncio.create_task(ask_in_loop(clerk, "Who?")) for clerk in CLERKS]
    _, pending = await asyncio.wait(tasks, return_when=asyncio.FIRST_COMPLETED)
    for task in pending:
        task.cancel()
    await asyncio.gather(*pending, return_exceptions=True)
    return entries_text()


async def fail_together(text: str) -> str:
    """Gives all questions up once one of the clerks has answered wrongly."""
    begin()

    async def work(clerk: str) -> None:
        await ask_in_loop(clerk, "Who?")
        if clerk == "b":
            raise ValueError(clerk)

    with suppress(ExceptionGroup):
        async with asyncio.TaskGroup() as group:
            for clerk in CLERKS:
                group.create_task(work(clerk))
    return entries_text()


async def tasks_and_threads(text: str) -> str:
    begin()
    await asyncio.gather(
        ask_in_loop("a", "Who?"), asyncio.to_thread(ask, "b", "Who?"), ask_in_loop("c", "Who?")
    )
    return entries_text()


async def read_streams(text: str) -> str:
    begin()

    async def work(clerk: str) -> None:
        stream = await async_client.chat.completions.create(
            model="gpt-5-mini", messages=messages(clerk, "Who?"), stream=True
        )
        async for _ in stream:
            pass
        entries.append(clerk)

    await asyncio.gather(*map(work, CLERKS))
    return entries_text()


async def two_at_a_time(text: str) -> str:
    begin()
    seats = asyncio.Semaphore(2)

    async def work(clerk: str) -> None:
        async with seats:
            await ask_in_loop(clerk, "Who?")

    await asyncio.gather(*map(work, CLERKS))
    return entries_text()


async def sleep_between(text: str) -> str:
    """Asks each clerk twice; all sleep before each question, b twice as long."""
    begin()

    async def work(clerk: str) -> None:
        for _ in range(2):
            await asyncio.sleep(2 if clerk == "b" else 1)
            await ask_in_loop(clerk, "Who?")

    await asyncio.gather(*map(work, CLERKS))
    return entries_text()


async def block_the_loop(text: str) -> str:
    begin()

    async def work(clerk: str) -> None:
        ask(clerk, "Who?")

    await asyncio.gather(*map(work, CLERKS))
    return entries_text()


def one_at_a_time(text: str) -> str:
    begin()
    key = Lock()

    def work(clerk: str) -> None:
        with key:
            ask(clerk, "Who?")

    with ThreadPoolExecutor() as pool:
        list(pool.map(work, CLERKS))
    return entries_text()


def graph_of(work: Callable[[str], Callable[[MessagesState], Any]]) -> Any:
    """A graph whose clerks are parallel nodes; the last node says what came of it."""
    graph = StateGraph(MessagesState)

    def head(state: MessagesState) -> Any:
        begin()
        return {}

    def end(state: MessagesState) -> Any:
        return {"messages": [("ai", entries_text())]}

    graph.add_node("head", head)
    graph.add_node("end", end)
    graph.add_edge(START, "head")
    for clerk in CLERKS:
        graph.add_node(clerk, work(clerk))
        graph.add_edge("head", clerk)
    graph.add_edge([*CLERKS], "end")
    return graph.compile()


def node(clerk: str) -> Callable[[MessagesState], Any]:
    def work(state: MessagesState) -> Any:
        book(clerk)
        return {}

    return work


def node_in_loop(clerk: str) -> Callable[[MessagesState], Awaitable[MessagesState]]:
    async def work(state: MessagesState) -> Any:
        await book_in_loop(clerk)
        return {}

    return work


graph = graph_of(node)
graph_in_loop = graph_of(node_in_loop)
