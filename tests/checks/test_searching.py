"""Searching contexts: the first match is what one finds who looks at every message."""

from __future__ import annotations

from functools import cache

import pytest
from hypothesis import given
from hypothesis import strategies as st
from msgspec.structs import replace

from simkit.checks.searching import Search
from simkit.core.messages import Message
from simkit.language.matching import Matcher, compile_matcher
from simkit.trace.views import ContextView, InlinePart
from tests.building import run_yaml
from tests.checks.judging import PIPELINE

WORDS = ("pizza", "Answer 7", "kcal", "coach", "food", "Question 1", "nowhere", "say/so", "8", "é")


@cache
def contexts() -> list[ContextView]:
    """The contexts of a long conversation."""
    turns = []
    for number in range(60):
        text = "coach: Answer" if number % 3 else "nutrition: [{calls: {log_meal: {food: pizza}}}"
        end = f" {number}" if number % 3 else f", 'Answer {number} say/so é']"
        to = "coach" if number % 3 else "nutrition"
        turns.append(
            f"  - user: {{json: {{number: {number}, text: Question {number}}}}}\n"
            f"    replies: {{router: {{json: {{to: {to}}}}}, {text}{end}}}\n"
            "    tool_results: {log_meal: {kcal: 800}}\n"
        )
    ran = run_yaml(PIPELINE, f"turns:\n{''.join(turns)}")
    return [call.context for call in ran.view.calls.values()]


def every_message(context: ContextView) -> list[Message]:
    """The messages of a context, and before each the pieces that it is made of."""
    messages: list[Message] = []
    for part in context.parts:
        if isinstance(part, InlinePart):
            messages += [
                replace(part.message, content=piece.content, section=piece.section, data=None)
                for piece in part.pieces
            ]
            messages.append(part.message)
        else:
            messages += [part.message(place) for place in range(len(part))]
    return [*messages, *(replace(message, section="run") for message in context.own_messages)]


words = st.sampled_from(WORDS)
leaves = st.one_of(
    words,
    st.builds(lambda word: {"$contains": word}, words),
    st.builds(lambda item, two: {"$contains": [item, two]}, words, words),
    st.builds(lambda word: {"$regex": word}, words),
    st.builds(lambda word: {"$not": {"$contains": word}}, words),
    st.builds(lambda item, two: {"$either": [{"$contains": item}, two]}, words, words),
    st.builds(lambda word: {"text": word}, words),
    st.sampled_from([{"number": 8}, {"to": "coach"}, {"kcal": 800}, {"kcal": 800.0}]),
)
matchers = st.one_of(
    leaves,
    st.builds(lambda role, leaf: {role: leaf}, st.sampled_from(["user", "tool"]), leaves),
    st.builds(lambda agent, leaf: {"agent": agent, "content": leaf}, words, leaves),
    st.sampled_from(
        [
            {"role": "tool"}, {"section": "history", "agent": "coach"}, {"section": "plan"},
            {"calls": [{"log_meal": {"food": "pizza"}}]}, {"calls": [{"tool": "log_meal"}]},
            {"calls": {"$each": {"args": {"food": "nowhere"}}}}, {"calls[0].name": "log_meal"},
            {"turn": 3}, {"calls": {"$len": 1}, "content": {"$absent": True}},
        ]
    ),
)  # fmt: skip


@pytest.mark.slow
@given(matchers, st.integers(min_value=0))
def test_the_first_match_is_the_first_of_all_messages_that_matches(
    matcher: object, place: int
) -> None:
    compiled = compile_matcher(matcher)
    search = Search()
    some = [contexts()[place % len(contexts())], contexts()[-1], contexts()[0], contexts()[-2]]

    places = [search.first(context, compiled) for context in some]

    assert places == [
        next((message for message in every_message(context) if compiled.holds(message)), None)
        for context in some
    ]


def test_what_a_stream_has_settled_is_matched_once_for_each_pattern() -> None:
    looked_at: list[Message] = []

    class Watched:
        def __init__(self) -> None:
            self.source = {"$not": {"$contains": "e"}}

        def holds(self, message: Message) -> bool:
            looked_at.append(message)
            return False

    search = Search()
    of_nutrition = [view for view in contexts() if view.tools]

    watched: Matcher = Watched()  # type: ignore[assignment]
    for context in of_nutrition:
        search.first(context, watched)

    settled = [message for message in looked_at if message.section == "history"]
    assert len(settled) <= 2 * len({message.id for message in settled})
