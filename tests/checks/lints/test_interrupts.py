"""FLW-06: questions that are asked again, and answers that go to somebody else."""

from __future__ import annotations

from typing import Any

from simkit.checks.findings import Hit
from simkit.trace import events as e
from tests.checks.traces import Story, hits_of, texts_of


def asks(story: Story, agent: str = "a", question: Any = "Which one?") -> None:
    """An agent starts, asks the user, and the turn ends."""
    story.start(agent)
    leaves(story, question)
    story.end()


def leaves(story: Story, question: Any = "Which one?") -> None:
    story.emit(e.TurnInterrupted(*story.where(), question=question))
    story.finish("interrupted")


def answers(story: Story) -> None:
    """The user answers: the next turn resumes."""
    story.turn("the red one")
    story.emit(e.TurnResumed(*story.where(), value="the red one"))


def make_story(*agents: str) -> Story:
    story = Story(["a", "b", "c"])
    story.turn()
    for agent in agents:
        story.start(agent)
        leaves(story)
    story.end()
    return story


def test_the_same_question_after_its_answer_is_found() -> None:
    story = make_story("a")
    answers(story)
    asks(story)
    answers(story)
    asks(story, question="Which size?")

    assert hits_of("FLW-06", story.trace) == [
        Hit(
            "FLW-06",
            "agent 'a' asks again in turn 2 what the user has answered: 'Which one?'",
            2, "a", data={"question": "Which one?"},
        )
    ]  # fmt: skip


def test_the_same_question_after_another_one_is_found() -> None:
    story = make_story("a")
    for question in ("Which size?", "Which one?"):
        answers(story)
        asks(story, question=question)

    assert [hit.turn for hit in hits_of("FLW-06", story.trace)] == [3]


def test_another_question_passes() -> None:
    story = make_story("a")
    answers(story)
    asks(story, question={"text": "Which one?"})

    assert hits_of("FLW-06", story.trace) == []


def test_the_same_question_of_another_agent_passes() -> None:
    story = make_story("a")
    answers(story)
    story.start("a")
    story.finish()
    asks(story, "b")

    assert hits_of("FLW-06", story.trace) == []


def test_the_same_question_after_a_write_passes() -> None:
    story = make_story("a")
    answers(story)
    story.start("a")
    story.finish(messages=[])
    asks(story)

    assert hits_of("FLW-06", story.trace) == []


def test_the_same_question_in_a_new_turn_passes() -> None:
    story = make_story("a")
    answers(story)
    story.start("a")
    story.finish()
    story.end()
    story.turn("something else")
    asks(story)

    assert hits_of("FLW-06", story.trace) == []


def test_a_question_that_was_never_answered_may_be_asked_again() -> None:
    story = make_story("a")
    story.turn("something else")
    asks(story)

    assert hits_of("FLW-06", story.trace) == []


def test_an_answer_that_goes_to_another_agent_is_found() -> None:
    story = make_story("a")
    answers(story)
    story.start("b")
    story.finish()
    story.start("a")
    story.finish()
    story.end()

    assert hits_of("FLW-06", story.trace) == [
        Hit(
            "FLW-06", "the user's answer went to agent 'b' in turn 2, but 'a' asked",
            2, "b", data={"asked": ["a"]},
        )
    ]  # fmt: skip


def test_an_answer_that_goes_to_who_asked_passes() -> None:
    story = make_story("a")
    answers(story)
    story.start("a")
    story.finish()
    story.start("b")
    story.finish()
    story.end()

    assert hits_of("FLW-06", story.trace) == []


def test_of_two_that_asked_each_may_be_answered_first() -> None:
    story = make_story("a", "b")
    answers(story)
    story.start("a")
    story.finish()
    story.end()
    answers(story)
    story.start("b")
    story.finish()
    story.end()

    assert hits_of("FLW-06", story.trace) == []


def test_a_question_that_the_user_left_behind_waits_no_longer() -> None:
    story = make_story("a")
    story.turn("something else")
    asks(story, "b")
    answers(story)
    story.start("a")

    assert texts_of("FLW-06", story.trace) == [
        "the user's answer went to agent 'a' in turn 3, but 'b' asked"
    ]


def test_a_session_is_not_answered_by_another() -> None:
    story = make_story("a")
    story.turn(session="s2")
    story.emit(e.TurnResumed(*story.where(), value="yes"))
    story.start("b")
    story.end()

    assert hits_of("FLW-06", story.trace) == []
