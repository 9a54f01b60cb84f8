"""The comparison can fail: each fault that is put into simkit is seen by the oracle."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import Any

import pytest

from simkit.runtime import turn as turns
from simkit.runtime.activation import Activation
from simkit.runtime.chain import Way
from simkit.runtime.compiled import CompiledPipeline
from simkit.runtime.context import history, recall
from simkit.runtime.conversation import Conversation
from simkit.runtime.kernel import advance_turn, open_turn
from simkit.runtime.sessions import Gifts
from simkit.runtime.state import State
from simkit.runtime.tool_use import ToolUse
from simkit.runtime.turn import Turn
from simkit.trace import reducers
from tests.oracle.comparing import differences
from tests.oracle.generator import FLOWS, Draw

Patch = pytest.MonkeyPatch
Mutant = Callable[[Patch], None]


def keeps_all(message: Any, _committed: Any) -> Any:
    """A filter that filters nothing."""
    return message


def filter_mutant(name: str) -> Mutant:
    """Returns the fault that a filter does nothing."""
    return lambda patch: patch.setitem(history.NAMED_FILTERS, name, keeps_all)


def reducer_mutant(name: str, other: Any) -> Mutant:
    """Returns the fault that a reducer does something else."""
    return lambda patch: patch.setitem(reducers.BUILT_IN, name, other)


def agents_filter_drops_the_user(patch: Patch) -> None:
    result = history._by_agent

    def by_agent(spec: Any) -> Any:
        remaining = result(spec)
        return lambda message, ids: None if message.agent is None else remaining(message, ids)

    patch.setattr(history, "_by_agent", by_agent)


def nothing_is_old(patch: Patch) -> None:
    patch.setattr(history, "of_older", lambda _options: [("older_than", keeps_all)])


def nothing_matches(patch: Patch) -> None:
    patch.setattr(history, "_by_matcher", lambda _source: keeps_all)


def window_is_one_wider(patch: Patch) -> None:
    start = history.HistoryReader._start
    patch.setattr(history.HistoryReader, "_start", lambda *of: max(0, start(*of) - 1))


def round_starts_anywhere(patch: Patch) -> None:
    patch.setattr(
        history, "_round_start",
        lambda stream, tail, rounds: max(0, len(stream.entries) + len(tail) - rounds),
    )  # fmt: skip


def tokens_are_not_counted(patch: Patch) -> None:
    patch.setattr(history, "_token_start", lambda *of: 0)


def last_is_not_kept(patch: Patch) -> None:
    extended = reducers.Appended.extended
    patch.setattr(reducers.Appended, "extended", lambda self, more, last=0: extended(self, more))


def a_turn_keeps_its_channels(patch: Patch) -> None:
    patch.setattr("simkit.runtime.state.State.end_turn", lambda *of: None)


def every_payload_fits(patch: Patch) -> None:
    patch.setattr("simkit.runtime.activation.reason_against", lambda *of: "")


def state_is_as_it_is_now(patch: Patch) -> None:
    patch.setattr("simkit.runtime.activation.dict", lambda of: of, raising=False)


def a_log_goes_by_time(patch: Patch) -> None:
    patch.setattr("simkit.runtime.conversation.in_blocks", lambda reply, *of: list(reply))


def every_item_has_the_tag(patch: Patch) -> None:
    patch.setattr(recall, "_has_one", lambda *of: True)


def what_was_said_is_forgotten(patch: Patch) -> None:
    start = Activation.start

    def anew(self: Activation) -> None:
        self.messages, self.own_numbers, self.own_tokens = [], (), 0
        start(self)

    patch.setattr(Activation, "start", anew)


def a_log_goes_on_after_a_question(patch: Patch) -> None:
    start = Activation.start

    def and_reads(self: Activation) -> None:
        start(self)
        self.log = self.turn.conversation.log_of(self.branch)

    patch.setattr(Activation, "start", and_reads)


def an_answer_ends_what_a_turn_has_kept(patch: Patch) -> None:
    def opened(sessions: Any, turn: Any, *, resumes: bool = False) -> None:
        if resumes:
            sessions.state.end_turn(turn.session)
        open_turn(sessions, turn, resumes=resumes)

    patch.setattr("simkit.runtime.kernel.open_turn", opened)


def a_summary_starts_anew(patch: Patch) -> None:
    patch.setattr(turns, "_not_covered", lambda slice_, hi, _: [*map(slice_.message, range(hi))])


def a_summary_forgets_the_last(patch: Patch) -> None:
    ask = turns.HistorySelection._ask_for_summary
    patch.setattr(
        turns.HistorySelection, "_ask_for_summary", lambda self, agent, _, fresh: ask(
            self, agent, None, fresh)
    )  # fmt: skip


def a_summary_covers_what_it_has_not_seen(patch: Patch) -> None:
    patch.setattr(turns.HistorySelection, "_not_seen", lambda *of: [])


def a_branch_sees_what_others_write(patch: Patch) -> None:
    patch.setattr(Turn, "values", lambda self, _: self.conversation.values)


def a_branch_hears_what_others_say(patch: Patch) -> None:
    log_of = Conversation.log_of
    patch.setattr(Conversation, "log_of", lambda self, _: log_of(self, None))


def one_channel_is_recalled(patch: Patch) -> None:
    limited = recall.Recaller._limited

    def limited_to_one(self: recall.Recaller, items: list[recall.ContextItem]) -> Any:
        items[:] = [item for item in items if item.channel == next(iter(self._channels))]
        return limited(self, items)

    patch.setattr(recall.Recaller, "_limited", limited_to_one)


def a_contract_writes_nothing(patch: Patch) -> None:
    patch.setattr(CompiledPipeline, "writes_of", lambda *of: None)


def a_flow_sees_the_state_of_before(patch: Patch) -> None:
    patch.setattr(Activation, "root_now", Activation.root_with_run)


def a_step_is_tried_for_ever(patch: Patch) -> None:
    refuse = Way.refuse
    patch.setattr(Way, "refuse", lambda self, _, report: refuse(self, False, report))


def nobody_is_told_why(patch: Patch) -> None:
    patch.setattr(Way, "problem_text", lambda *of: "")


def refused_ways_are_taken(patch: Patch) -> None:
    patch.setattr("simkit.runtime.chain.reason_against", lambda *of: "")


def a_failure_is_a_result(patch: Patch) -> None:
    def results(self: ToolUse) -> dict[str, Any]:
        return {record["tool"]: record["result"] or record["error"] for record in self.records}

    patch.setattr(ToolUse, "results", property(results))


def a_failed_turn_is_forgotten(patch: Patch) -> None:
    def worked(sessions: Any, turn: Any, *rest: Any) -> Any:
        error = advance_turn(sessions, turn, *rest)
        if error is not None:
            del turn.conversation.log[turn.conversation.starts["log"] + 1 :]
        return error

    patch.setattr("simkit.runtime.kernel.advance_turn", worked)


def all_projects_are_given(patch: Patch) -> None:
    given = Gifts.for_session

    def to_all(self: Gifts, project: str) -> Any:
        self._project = project
        return given(self, project)

    patch.setattr(Gifts, "for_session", to_all)


def projects_share(patch: Patch) -> None:
    share = State._share

    def with_all(self: State, session: str, channel: Any, value: Any) -> None:
        for item in self._sessions:
            share(self, item, channel, value)

    patch.setattr(State, "_share", with_all)


MUTANTS: Mapping[str, Mutant] = {
    "tool_messages": filter_mutant("tool_messages"),
    "tool_calls": filter_mutant("tool_calls"),
    "intermediate_ai": filter_mutant("intermediate_ai"),
    "handoffs": filter_mutant("handoffs"),
    "agents": agents_filter_drops_the_user,
    "drop": nothing_matches,
    "age": nothing_is_old,
    "window": window_is_one_wider,
    "rounds": round_starts_anywhere,
    "tokens": tokens_are_not_counted,
    "append last": last_is_not_kept,
    "merge deep": reducer_mutant("merge_deep", reducers.merge),
    "merge": reducer_mutant("merge", reducers.merge_deep),
    "add": reducer_mutant("add", reducers.replace),
    "union": reducer_mutant("union", reducers.append),
    "by_id": reducer_mutant("by_id", reducers.append),
    "payload": every_payload_fits,
    "state": state_is_as_it_is_now,
    "log of a group": a_log_goes_by_time,
    "tags": every_item_has_the_tag,
    "turn scope": a_turn_keeps_its_channels,
    "said before a question": what_was_said_is_forgotten,
    "log of a question": a_log_goes_on_after_a_question,
    "turn scope of a question": an_answer_ends_what_a_turn_has_kept,
    "rolling": a_summary_starts_anew,
    "last summary": a_summary_forgets_the_last,
    "summary beside others": a_summary_covers_what_it_has_not_seen,
    "state of a branch": a_branch_sees_what_others_write,
    "log of a branch": a_branch_hears_what_others_say,
    "several channels": one_channel_is_recalled,
    "writes of a contract": a_contract_writes_nothing,
    "words of a step": a_flow_sees_the_state_of_before,
    "retry": a_step_is_tried_for_ever,
    "why": nobody_is_told_why,
    "refused ways": refused_ways_are_taken,
    "failed tools": a_failure_is_a_result,
    "failed turns": a_failed_turn_is_forgotten,
    "given of a project": all_projects_are_given,
    "projects": projects_share,
}


SEEDS = 150
SHOWN_BY = {
    "tool_messages": (1, "handoffs"), "intermediate_ai": (1, "router"), "agents": (0, "handoffs"),
    "drop": (0, "graph"), "window": (3, "supervisor"), "tokens": (7, "router"),
    "append last": (1, "handoffs"), "merge": (4, "graph"), "add": (2, "router"),
    "union": (3, "router"), "by_id": (3, "handoffs"), "state": (68, "router"),
    "log of a group": (1, "router"), "tags": (2, "graph"),
    "turn scope of a question": (19, "graph"), "rolling": (12, "router"),
    "last summary": (12, "router"), "summary beside others": (96, "router"),
    "several channels": (5, "router"), "writes of a contract": (2, "graph"),
    "words of a step": (8, "router"), "retry": (1, "graph"), "why": (1, "graph"),
    "refused ways": (1, "graph"), "failed turns": (5, "router"), "given of a project": (1, "graph"),
    "projects": (2, "router"),
}  # fmt: skip
"""The first drawing that shows the fault, where it is not the very first one."""


def drawings(name: str) -> Iterator[Draw]:
    """Yields what may show a fault."""
    if name in SHOWN_BY:
        seed, flow = SHOWN_BY[name]
        yield Draw(seed, flow=flow)
    yield from (Draw(seed, flow=flow) for seed in range(SEEDS) for flow in FLOWS)


@pytest.mark.parametrize("name", MUTANTS)
def test_a_fault_in_simkit_is_seen(name: str, monkeypatch: Patch) -> None:
    MUTANTS[name](monkeypatch)

    assert any(differences(draw.pipeline, draw.scenario) for draw in drawings(name))
