"""Rules of the supervisor that relate one part of an execution to another.

Each takes the trace's view, and returns true or what is wrong. The numbers are those of the rules.
"""

from __future__ import annotations

import json
import re
from typing import Any

from simkit.trace.views import TurnView, View

STEPS = ["database_agent", "analysis_agent", "reporting_agent"]
TITLE = "CONTEXT DATA (use this in your tool calls):"
CLOSING = "You can reference fields from this data when calling tools."


def parsed(value: Any) -> Any:
    """Return a result as it is stored: JSON as its value, any other text as it is (143)."""
    if not isinstance(value, str):
        return value
    try:
        return json.loads(value)
    except ValueError:
        return value


def is_product_data(value: Any) -> bool:
    """Return whether a validator between producer and analyst accepts a value (162, 170)."""
    records = value.get("data") if isinstance(value, dict) else None
    return isinstance(records, list) and all(
        isinstance(record, dict) and isinstance(record.get("sales"), (int, float))
        for record in records
    )


def steps_are_worked_off_in_order(view: View) -> bool | str:
    """152, 153, 184: database, analysis, report; later steps only after earlier ones."""
    for turn in view.turns:
        agents = [run.agent for run in turn.runs]
        if agents != STEPS[: len(agents)]:
            return f"{agents} ran"
        if is_product_data(turn.runs[0].output) and agents != STEPS:
            return f"{agents} ran, and the data is fine"
    return True


def results_of(turn: TurnView) -> list[dict[str, Any]]:
    """Return the results that each run of a turn must find (144, 146, 154, 156, 171)."""
    results: dict[str, Any] = {}
    expected = []
    for run in turn.runs:
        expected.append(results)
        results = {**results, f"{run.agent}_output": parsed(run.output)}
    return [*expected, results]


def each_agent_receives_all_results_before_its_own(view: View) -> bool | str:
    """146, 154, 156, 157, 171: under `AGENT_output`, of this execution alone."""
    for turn in view.turns:
        *expected, at_end = results_of(turn)
        for run, results in zip(turn.runs, expected, strict=True):
            if run.received["agent_results"] != results:
                return f"{run.agent} receives {run.received['agent_results']}, not {results}"
        if turn.error is None and turn.state["agent_results"] != at_end:
            return f"{turn.state['agent_results']} is stored, not {at_end}"
    return True


def the_context_is_formatted_json_in_the_system_prompt(view: View) -> bool | str:
    """136, 140-142, 145, 160: heading, indented JSON, two sentences; nothing without results."""
    for turn in view.turns:
        *expected, _ = results_of(turn)
        for run, results in zip(turn.runs, expected, strict=True):
            for call in run.calls:
                systems = [m.content for m in call.context.messages if m.role == "system"]
                if len(systems) != 1:
                    return f"{run.agent} is sent {len(systems)} system messages"
                heading, _, rest = systems[0].partition(TITLE)
                if not results:
                    if rest or TITLE in systems[0]:
                        return f"{run.agent} is shown a context without results"
                    continue
                block = re.search(r"```json\n(.*?)\n```", rest, re.S)
                if block is None or "\n" not in block[1] or json.loads(block[1]) != results:
                    return f"{run.agent} is not shown {results} as formatted JSON: {rest}"
                if not heading.strip() or not rest.strip().endswith(CLOSING):
                    return f"{run.agent} is not told how to use the context"
    return True


def a_tools_result_is_the_output(view: View) -> bool | str:
    """158, 159, 166: the JSON of the tool, without another model call."""
    for turn in view.turns:
        for run in turn.runs:
            tools = [tool for tool in turn.tools if tool.agent == run.agent]
            good = [place for place, tool in enumerate(tools) if tool.error is None]
            if good and (good != [len(tools) - 1] or len(run.calls) != len(tools)):
                return f"{run.agent} is asked again after its tool's result"
            if good and run.output != parsed(tools[-1].result):
                return f"{run.agent} puts out {run.output}, not {tools[-1].result}"
    return True


def broken_data_never_reaches_the_analyst(view: View) -> bool | str:
    """161-163, 172: what a validator refuses stops the pipeline, and what failed is no result."""
    for turn in view.turns:
        for handoff in turn.handoffs:
            is_made = handoff.outcome == "made"
            if handoff.event.to_agent == STEPS[1] and is_made != is_product_data(handoff.payload):
                return f"{handoff.payload} was {handoff.outcome}"
        if len(turn.runs) > 1 and not is_product_data(turn.runs[0].output):
            return f"the analyst is sent {turn.runs[0].output}"
        if len(turn.handoffs) != len(turn.runs) - (len(turn.runs) == len(STEPS)):
            return f"{len(turn.handoffs)} handoffs were validated between {len(turn.runs)} agents"
    return True


def only_complete_records_are_made(view: View) -> bool | str:
    """162, 163, 170: a handoff is made if its records have structure; the stop wants one record."""
    for turn in view.turns:
        for handoff in turn.handoffs:
            payload = handoff.payload
            is_good = is_product_data(payload) and all("product" in r for r in payload["data"])
            if handoff.event.from_agent == "stopping_producer":
                is_good = is_good and len(payload["data"]) >= 1
            if (handoff.outcome == "made") != is_good:
                return f"{payload} was {handoff.outcome}"
    return True


def later_agents_receive_earlier_outputs(view: View) -> bool | str:
    """144, 146, 156: what an agent puts out is in the context of everyone after it."""
    for turn in view.turns:
        results: dict[str, Any] = {}
        for run in turn.runs:
            if run.received["agent_results"] != results:
                return f"{run.agent} receives {run.received['agent_results']}, not {results}"
            for call in run.calls:
                text = call.context.messages[0].content
                if any(f'"{name}"' not in text for name in results) or (TITLE in text) != bool(
                    results
                ):
                    return f"{run.agent} is not shown {[*results]}"
            results[f"{run.agent}_output"] = run.output
    return True


def a_refusal_ends_the_turn_or_has_its_source_try_again(view: View) -> bool | str:
    """163: `stop` ends the turn without an error; elsewhere the producer is told, and asked."""
    for turn in view.turns:
        agents = [run.agent for run in turn.runs]
        stopped = agents == ["stopping_producer"]
        if stopped != (turn.handoffs[0].outcome == "rejected") or turn.error is not None:
            return f"{agents} ran after the first validation was {turn.handoffs[0].outcome}"
        refused = [h.event.from_agent for h in turn.handoffs if h.outcome == "rejected"]
        validated = [h.event.from_agent for h in turn.handoffs]
        if validated != [agent for agent in agents if agent.endswith("_producer")]:
            return f"the output of {validated} was validated, where {agents} ran"
        for agent in ("rejected_producer", "retried_producer"):
            if not stopped and agents.count(agent) != 1 + refused.count(agent):
                return f"{agent} ran {agents.count(agent)} times"
            for run in [run for run in turn.runs if run.agent == agent][1:]:
                if not any("rejected" in m.content for m in run.calls[0].context.messages):
                    return f"{agent} is not told why it is asked again"
        if not stopped and agents[-1] != "analysis_agent":
            return f"{agents} ran"
    return True


def what_is_kept_is_the_projects(view: View) -> bool | str:
    """174, persistence: the outputs of earlier executions are there, the newest of each agent."""
    kept: dict[str, Any] = {}
    for turn in view.turns:
        for run in turn.runs:
            if run.received["kept_results"] != kept:
                return f"{run.agent} finds {run.received['kept_results']} kept, not {kept}"
            if run.agent == "restored_reporting_agent":
                text = run.calls[0].context.messages[0].content
                if any(f'"{name}"' not in text for name in kept):
                    return f"what was kept is not shown: {text}"
            kept = {**kept, f"{run.agent}_output": run.output}
    return True


def the_prompt_comes_first_and_the_task_last(view: View) -> bool | str:
    """140, 149: instructions and context in one system message, then the task as the user's."""
    for turn in view.turns:
        for run in turn.runs:
            for call in run.calls:
                roles = [message.role for message in call.context.messages]
                if roles[:2] != ["system", "user"] or call.context.messages[1].content != run.input:
                    return f"{run.agent} is sent {roles}, and {call.context.messages[1].content!r}"
    return True
