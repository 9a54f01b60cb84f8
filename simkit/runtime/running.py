"""One agent's run from its start to its end: rules, its function or its model calls, its writes.

As in `simkit.runtime.model_calls`, what needs no waiting is done at once.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from typing import Any

import msgspec

from simkit.core import messages as m
from simkit.core.errors import InputInvalid, PipelineError, ScriptBroken, TurnCut
from simkit.runtime.activation import Activation
from simkit.runtime.compiled import CompiledRule
from simkit.runtime.handoff_execution import TurnStopped, hand_off
from simkit.runtime.model_calls import converse
from simkit.runtime.scheduler import Steps
from simkit.trace.store import canonical, copied

_encode = msgspec.json.Encoder().encode


def ran(run: Activation) -> Steps | None:
    """Run an announced agent until it has to wait; return the steps that remain, if any."""
    agent = run.agent
    try:
        if agent.function is None and agent.input is None and not agent.before:
            remaining = converse(run)
        else:
            remaining = _first_steps(run)
        if remaining is None:
            _finish(run)
            return None
    except (TurnStopped, TurnCut):
        run.cancel()
        raise
    except (PipelineError, ScriptBroken):
        run.cancel("failed")
        raise
    return _to_its_end(run, remaining)


def _to_its_end(run: Activation, remaining: Steps | None) -> Steps:
    try:
        while remaining is not None:
            yield from remaining
            remaining = converse(run)
        _finish(run)
    except GeneratorExit:
        run.cancel(run.turn.closing)
        raise
    except (TurnStopped, TurnCut):
        run.cancel()
        raise
    except (PipelineError, ScriptBroken):
        run.cancel("failed")
        raise


def _first_steps(run: Activation) -> Steps | None:
    agent = run.agent
    if agent.input is not None:
        run.check(agent.input, run.input, InputInvalid, "input")
    if agent.before:
        run.stood_in = _first_that_holds(agent.before, run.root())
    if run.stood_in is not None:
        run.is_over = True
        return None
    return converse(run) if agent.function is None else _call_function(run)


def _finish(run: Activation) -> None:
    """Write what a run writes, and end it."""
    agent, turn = run.agent, run.turn
    if run.onward is not None:
        run.end("handed_off")
        return
    if not agent.after and run.stood_in is None and (agent.writes is None or _wrote_plainly(run)):
        run.end("done", run.changed)
        return
    root = run.root_with_run()
    rule, cause = run.stood_in, "before"
    if rule is None and agent.after:
        rule, cause = _first_that_holds(agent.after, root), "after"
    update = agent.writes.resolve(root) if agent.writes is not None else {}
    ruled = rule.writes.resolve(root) if rule is not None else None
    if ruled:
        update = {**update, **ruled}
    if update:
        turn.write(update, cause if ruled else "writes", agent.name, run.id, run.branch)
    run.end("done" if run.stood_in is None else "stood_in", run.changed)


def _wrote_plainly(run: Activation) -> bool:
    """Write what a run writes, if it is known how the trace records it; return whether it is."""
    writes, turn, final, output = run.agent.plain_writes, run.turn, run.final, run.output
    if (
        writes is None
        or not writes.is_direct
        or final is None
        or run.branch is not None
        or type(turn.input) is not str
    ):
        return False
    plain = output if type(output) is str else canonical(output)
    number = turn.numbers.sizes[final.id][0]
    writes.write(turn, run.id, final.content, output, plain, final, number)
    return True


def _first_that_holds(
    rules: Sequence[CompiledRule], root: Mapping[str, Any]
) -> CompiledRule | None:
    for rule in rules:
        if rule.holds(root):
            return rule
    return None


def _call_function(run: Activation) -> Steps | None:
    """Call the user's function that is the agent."""
    root_copy = {key: copied(value) for key, value in run.root().items()}
    state: Mapping[str, Any] = root_copy["state"]
    before = {channel: _encode(canonical(value)) for channel, value in state.items()}
    assert run.agent.function is not None
    run.turn.compiled.functions.caller = run.agent.name
    answer = run.agent.function(root_copy)
    run.is_over = True
    after: Mapping[str, Any] = root_copy["state"]
    run.changed = tuple(
        channel
        for channel in sorted({*before, *after})
        if channel not in after or _encode(canonical(after[channel])) != before.get(channel)
    )
    if isinstance(answer, m.Handoff):
        remaining = hand_off(run, answer, kind="")
        if remaining is not None:
            return _handed_off_later(run, remaining)
    elif answer is not None:
        run.output = copied(answer)
        plain = canonical(answer)
        text = answer if isinstance(answer, str) else _encode(plain).decode()
        run.say(text, data=None if isinstance(answer, str) else plain)
    if run.onward is None:
        run.check_output()
    return None


def _handed_off_later(run: Activation, remaining: Steps) -> Steps:
    """Check the output after a delegate has answered."""
    yield from remaining
    run.check_output()
