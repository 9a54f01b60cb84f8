"""Rules of the fitness coach that relate one part of a conversation to another.

Each takes the trace's view, and returns true or what is wrong. The numbers are those of the rules.
"""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

from simkit.trace.views import RunView, TurnView, View

ORDER = ("instructions", "notes", "memories", "previous_agents", "handoff", "history",
         "current_message", "run")  # fmt: skip
SUMMARY_MAX = 500
THRESHOLD = 0.79


def coach_runs(view: View) -> Iterator[tuple[TurnView, RunView]]:
    """Yield the runs of coaches, each with its turn."""
    for turn in view.turns:
        yield from ((turn, run) for run in turn.runs if run.agent != "router")


def selected_agents_run_in_order(view: View) -> bool | str:
    """6, 52: the router's selection runs; a handoff adds its target."""
    for turn in view.turns:
        decision = turn.runs[0].output
        selected = decision["primary_agent"]
        expected = ["router"]
        targets = [handoff.event.to_agent for handoff in turn.handoffs]
        for agent in selected if isinstance(selected, list) else [selected]:
            expected.append(agent)
            if agent == "workout_coach":
                expected += targets
        if [run.agent for run in turn.runs] != expected:
            return f"{[run.agent for run in turn.runs]} ran, not {expected}"
        for run in turn.runs[1:]:
            if run.received["router_decision"] != decision:
                return f"{run.agent} received the decision {run.received['router_decision']}"
    return True


def the_conversation_has_every_message_and_final_answer(view: View) -> bool | str:
    """2-4, 59, 63, 204: two messages a turn for one coach, nothing lost, no tool traffic."""
    expected: list[str] = []
    for turn in view.turns:
        assert turn.message is not None
        expected.append(turn.message.content)
        for run in turn.runs:
            received = [message.content for message in run.received["messages"]]
            if received != expected:
                return f"{run.agent} received the messages {received}, not {expected}"
            if run.agent != "router" and run.message is not None and not run.message.calls:
                expected.append(run.message.content)
        state = [message.content for message in turn.state["messages"]]
        if state != expected:
            return f"after turn {turn.number} the messages are {state}, not {expected}"
    return True


def a_coach_reads_the_whole_conversation(view: View) -> bool | str:
    """5, 27, 42-48, 60, 61, 64: all of it but the current message, which comes last."""
    for turn, run in coach_runs(view):
        assert turn.message is not None
        said = [message.content for message in run.received["messages"]]
        said.remove(turn.message.content)
        for call in run.calls:
            history = call.context.section("history")
            if sorted(message.content for message in history) != sorted(said):
                return f"{run.agent} reads {[message.content for message in history]}, not {said}"
            if any(message.calls or message.role == "tool" for message in history):
                return f"{run.agent} reads tool traffic of others"
            (current,) = call.context.section("current_message")
            if (current.role, current.content) != ("user", turn.message.content):
                return f"{run.agent} is not shown the current message as the user's"
    return True


def sections_stand_in_the_documents_order(view: View) -> bool | str:
    """24, 26: prompt, notes, memories, previous agents, history, message; the first are system."""
    for _, run in coach_runs(view):
        for call in run.calls:
            sections = call.context.sections
            if sections != [name for name in ORDER if name in sections]:
                return f"{run.agent} is sent {sections}"
            for name in ("instructions", "notes", "memories", "previous_agents"):
                if any(message.role != "system" for message in call.context.section(name)):
                    return f"{run.agent} is sent {name} in another role than system"
    return True


def an_agent_returns_its_output_under_its_name(view: View) -> bool | str:
    """12-16, 49-51: agent, reply, structured data, tools, times, messages."""
    for turn, run in coach_runs(view):
        if run.message is None or run.message.calls:
            continue
        outputs = run.update["agent_outputs"]
        if [*outputs] != [run.agent]:
            return f"{run.agent} returns its output under {[*outputs]}"
        output = outputs[run.agent]
        calls = [call for message in run.messages for call in message.calls]
        ids = {call.id for call in calls}
        done = {tool.tool: tool for tool in turn.tools if tool.call_id in ids}
        expected = {
            "agent": run.agent,
            "reply": run.message.content,
            "tools_called": [call.name for call in calls],
        }
        for key, value in expected.items():
            if output.get(key) != value:
                return f"{run.agent} returns {key} {output.get(key)}, not {value}"
        for tool in done.values():
            if tool.error is None and output["tool_results"].get(tool.tool) != tool.result:
                return f"{run.agent} returns the results {output['tool_results']}"
        if set(output["timestamps"] or ()) != ids:
            return f"{run.agent} does not return the times of {ids}"
        if not isinstance(output["took_ms"], int):
            return f"{run.agent} does not return how long it took"
        if len(output["messages"]) != len(run.messages):
            return f"{run.agent} returns {len(output['messages'])} of its messages"
        if set(output) != {*expected, "tool_results", "timestamps", "took_ms", "messages"}:
            return f"{run.agent} returns {[*output]}"
    return True


def later_agents_read_earlier_outputs(view: View) -> bool | str:
    """11, 37-41, 53, 54, 65: those of this turn and of other agents, cut, with structured data."""
    for turn in view.turns:
        before: dict[str, Any] = {}
        for run in turn.runs:
            if run.received["agent_outputs"] != before:
                return f"{run.agent} received the outputs of {[*run.received['agent_outputs']]}"
            others = {agent: out for agent, out in before.items() if agent != run.agent}
            for call in run.calls if run.agent != "router" else ():
                text = "".join(part.content for part in call.context.section("previous_agents"))
                if bool(text) != bool(others) or (text and not text.startswith("# Context from ")):
                    return f"{run.agent} is told of earlier agents: {text!r}"
                for agent, out in others.items():
                    summary = out["reply"][:SUMMARY_MAX]
                    if (
                        f"## {agent}:\n{summary}" not in text
                        or out["reply"] in text[:1]
                        or (
                            len(out["reply"]) > SUMMARY_MAX
                            and out["reply"][: SUMMARY_MAX + 1] in text
                        )
                    ):
                        return f"{run.agent} is not told the first 500 characters of {agent}"
                    for tool in out["tool_results"]:
                        if f'"{tool}"' not in text.partition("**Structured Data:**")[2]:
                            return f"{run.agent} is not told the data of {agent}'s {tool}"
                if f"## {run.agent}:" in text:
                    return f"{run.agent} is told of itself"
            before = {**before, **run.update.get("agent_outputs", {})}
        if turn.state["agent_outputs"] != before:
            return f"turn {turn.number} ends with the outputs of {[*turn.state['agent_outputs']]}"
    return True


def memories_are_near_and_in_the_time_ranges(view: View) -> bool | str:
    """33-36: scored at least 0.79, within the ranges of the decision, the best first."""
    for turn, run in coach_runs(view):
        ranges = turn.runs[0].output.get("time_ranges") or ()
        near = [
            memory
            for memory in run.received["memories"]
            if memory.get("score", 0) >= THRESHOLD
            and (not ranges or any(r["from"] <= memory["at"][:10] <= r["to"] for r in ranges))
        ]
        near.sort(key=lambda memory: -memory["score"])
        lines = ["# Relevant Long-Term Memories", *(f"- {memory['text']}" for memory in near)]
        expected = ["\n".join(lines)] if near else []
        for call in run.calls:
            shown = [message.content for message in call.context.section("memories")]
            if shown != expected:
                return f"{run.agent} is shown the memories {shown}, not {expected}"
    return True


def a_handoff_leaves_its_context_before_the_target_starts(view: View) -> bool | str:
    """23, 52: the target reads what was handed over, from the state and in its prompt."""
    for _, run in coach_runs(view):
        if not run.handoff:
            continue
        context = run.received["handoff_context"]
        if context is None or context["payload"] != {"distance_km": 8}:
            return f"{run.agent} received the handoff context {context}"
        for call in run.calls:
            if not any("distance_km" in part.content for part in call.context.section("handoff")):
                return f"{run.agent} is not shown what was handed over"
    return True


def decisions_usage_and_time_accumulate(view: View) -> bool | str:
    """10, 22, 55, 56: the last ten decisions of the session, all usage, the time of the turn."""
    decisions: list[Any] = []
    usage = 0
    for turn in view.turns:
        took = 0
        for run in turn.runs:
            if run.agent == "router":
                decisions.append(run.output)
            if "usage_tracker" in run.update:
                usage += 1
            elif run.message is not None and not run.message.calls:
                return f"the usage of {run.agent} is not recorded"
            took += run.update.get("total_execution_time_ms", 0)
        if turn.state["routing_history"] != decisions[-10:]:
            return f"after turn {turn.number} the decisions are {turn.state['routing_history']}"
        if len(turn.state["usage_tracker"]) != usage:
            return f"after turn {turn.number} {len(turn.state['usage_tracker'])} usages are known"
        if turn.state["total_execution_time_ms"] != took:
            return f"turn {turn.number} took {took} ms, and the state says otherwise"
    return True


def the_twenty_best_memories_are_shown(view: View) -> bool | str:
    """33: by their scores, the best first."""
    for _, run in coach_runs(view):
        best = sorted(run.received["memories"], key=lambda memory: -memory["score"])[:20]
        text = "".join(part.content for part in run.calls[0].context.section("memories"))
        shown = [line[2:] for line in text.split("\n") if line.startswith("- ")]
        if shown != [memory["text"] for memory in best]:
            return f"{run.agent} is shown {shown}"
    return True


def options_of_the_history_hold(view: View) -> bool | str:
    """43-48: windows count rounds of everyone; filters drop tool traffic unless switched off."""
    rounds: list[list[str]] = []
    logged: list[Any] = []
    for turn in view.turns:
        assert turn.message is not None
        run = turn.runs[-1]
        history = [*run.calls[0].context.section("history")]
        texts = [message.content for message in history]
        traffic = [message for message in history if message.calls or message.role == "tool"]
        last = {"one_round_coach": 1, "two_rounds_coach": 2}.get(run.agent, len(rounds))
        said = [text for one in rounds[len(rounds) - last :] for text in one]
        if run.agent == "unfiltered_coach":
            tools = sum(message.role == "tool" for message in logged)
            if sum(message.role == "tool" for message in history) != tools:
                return f"{run.agent} reads {len(traffic)} of the tool traffic"
        elif traffic:
            return f"{run.agent} reads tool traffic"
        elif run.agent == "intermediate_coach":
            missing = [m.content for m in logged if m.role == "assistant" and m.agent != "router"]
            if any(text not in texts for text in missing):
                return f"{run.agent} reads {texts}, not all of {missing}"
        elif texts != said:
            return f"{run.agent} reads {texts}, not {said}"
        logged += run.messages
        rounds.append([turn.message.content, str(turn.reply)])
    return True


def improved_coaches_read_what_they_are_for(view: View) -> bool | str:
    """68-71: one coach's messages, a summary of what is older than a round, structured data."""
    rounds: list[tuple[str, str, str]] = []
    for turn in view.turns:
        assert turn.message is not None
        run = next(run for run in turn.runs[::-1] if run.agent not in ("router", "summarizer"))
        context = run.calls[0].context
        texts = [message.content for message in context.section("history")]
        said = [text for user, answer, _ in rounds for text in (user, answer)]
        if context.sections[0] != "instructions" or context.messages[-1].role != "user":
            return f"{run.agent} is sent {context.sections}"
        if run.agent in ("nutrition", "workout_coach") and texts != said:
            return f"{run.agent} reads {texts}, not {said}"
        if run.agent == "filtered_coach":
            own = [t for u, a, by in rounds for t in ([u, a] if by == "workout_coach" else [u])]
            if texts != own:
                return f"{run.agent} reads {texts}, not {own}"
        if run.agent == "summary_coach" and rounds:
            summaries = ["The user eats and runs."] if len(rounds) > 1 else []
            if texts != [*summaries, *said[-2:]]:
                return f"{run.agent} reads {texts}, not {summaries} and {said[-2:]}"
        if run.agent == "explicit_coach":
            shared = "".join(part.content for part in context.section("shared"))
            if any(f'"{by}"' not in shared for _, _, by in rounds):
                return f"{run.agent} is told {shared}"
        outputs = {*(by for _, _, by in rounds), run.agent}
        if set(turn.state["agent_outputs"]) != outputs:
            return f"the outputs are those of {[*turn.state['agent_outputs']]}, not {outputs}"
        rounds.append((turn.message.content, str(turn.reply), run.agent))
    return True
