"""Rules of the agent engine that relate one part of a task to another.

Each takes the trace's view, and returns true or what is wrong. The numbers are those of the rules.
"""

from __future__ import annotations

from collections import Counter
from typing import Any

from simkit.trace.views import RunView, TurnView, View

TIERS = {
    "search": (),
    "decide": ("task_items", "project_items"),
    "analyze": ("task_items", "project_items", "global_items"),
}
KEPT = {"task_items": "for_the_task", "project_items": "for_the_project", "global_items": "for_all"}
BUDGET = 30
"""Tokens, of four characters each."""


def an_output_is_the_next_nodes_input(view: View) -> bool | str:
    """73, 74, 112, 129: along edges alone."""
    for turn in view.turns:
        for before, run in zip(turn.runs, turn.runs[1:], strict=False):
            if run.input != before.output:
                return f"{run.agent} gets {run.input}, not the output {before.output}"
        if turn.error is None and turn.reply != turn.runs[-1].output:
            return f"the task ends with {turn.reply}, not {turn.runs[-1].output}"
    return True


def the_current_output_is_the_last_nodes(view: View) -> bool | str:
    """77, 82, 85."""
    for turn in view.turns:
        output = None
        for run in turn.runs:
            if run.received["current_output"] != output:
                return f"{run.agent} receives the output {run.received['current_output']}"
            output = run.output
        if turn.state["current_output"] != output:
            return f"at the end the output is {turn.state['current_output']}"
    return True


def tools_of(turn: TurnView, run: RunView) -> list[Any]:
    """Return the tool calls of a run, in order."""
    ids = {call.id for message in run.messages for call in message.calls}
    return [tool for tool in turn.tools if tool.call_id in ids]


def every_node_leaves_a_complete_record(view: View) -> bool | str:
    """78, 86, 100-102: node, input, output, tool calls with inputs, output or error, times."""
    for turn in view.turns:
        stages = turn.state["stages"]
        if [stage["node"] for stage in stages] != [run.agent for run in turn.runs]:
            return f"the records are those of {[stage['node'] for stage in stages]}"
        for stage, run in zip(stages, turn.runs, strict=True):
            if (stage["input"], stage["output"]) != (run.input, run.output):
                return f"the record of {run.agent} has {stage['input']} and {stage['output']}"
            if not isinstance(stage["took_ms"], int):
                return f"the record of {run.agent} has no time"
            tools = tools_of(turn, run)
            wrong = len(stage["tool_calls"]) != len(tools)
            for record, tool in zip(stage["tool_calls"], tools, strict=False):
                values = (record.get("args"), record.get("result"), record.get("error"))
                wrong = wrong or values != (tool.args, tool.result, tool.error)
            if wrong:
                return f"the record of {run.agent} has the tool calls {stage['tool_calls']}"
    return True


def tiers_hold_what_was_kept_for_them(view: View) -> bool | str:
    """84-89, 101: the task's own, the project's in all its sessions, the global tier."""
    shared = {"project_items": ["Users sign in."], "global_items": ["Hash what is secret."]}
    for turn in view.turns:
        tiers = {"task_items": [], **shared}
        for run in turn.runs:
            for channel, expected in tiers.items():
                texts = [item["text"] for item in run.received[channel]]
                if texts != expected:
                    return f"{run.agent} receives {channel} {texts}, not {expected}"
            output = run.output if isinstance(run.output, dict) else {}
            for channel, name in KEPT.items():
                if name in output:
                    tiers[channel] = [*tiers[channel], output[name]["text"]]
        shared = {channel: tiers[channel] for channel in shared}
    return True


def a_node_is_told_its_tiers_newest_first_within_its_budget(view: View) -> bool | str:
    """90-97: items with the node's tags, the newest first, by tier, as many as fit."""
    for turn in view.turns:
        for run in turn.runs:
            text = "".join(part.content for part in run.calls[0].context.section("recall"))
            told = [line[2:] for line in text.split("\n") if line.startswith("- ")]
            kept = [
                item["text"]
                for channel in TIERS[run.agent]
                for item in reversed(run.received[channel])
                if "code" in item["tags"]
            ]
            if Counter(told) - Counter(kept):
                return f"{run.agent} is told {told} of {kept}"
            if told != kept[: len(told)]:
                return f"{run.agent} is told {told}, not the newest of {kept}"
            size = sum(len(line) for line in kept) // 4
            if len(told) < len(kept) and size < BUDGET // 2:
                return f"{run.agent} is told {told}, where {kept} fits"
            if sum(len(line) for line in told) // 4 > BUDGET:
                return f"{run.agent} is told more than its budget"
    return True


def a_later_node_sees_what_earlier_nodes_did(view: View) -> bool | str:
    """61, 104, 108, 133: its words, its context and its upstream have the predecessor's work."""
    for turn in view.turns:
        for before, run in zip(turn.runs, turn.runs[1:], strict=False):
            tools = tools_of(turn, before)
            for call in run.calls:
                upstream = "".join(part.content for part in call.context.section("upstream"))
                for tool in tools:
                    answer = tool.error if tool.error is not None else tool.result
                    for word in answer if isinstance(answer, list) else [answer]:
                        if str(word) not in upstream:
                            return f"{run.agent} is not shown the result {word!r}: {upstream}"
                tiers = [m.content for m in call.context.section("recall")]
                kept = [item["text"] for item in run.received.get("task_items", ())]
                if any(text not in "".join(tiers) for text in kept):
                    return f"{run.agent} is told {tiers}, not {kept}"
    return True


def past_tasks_stay_with_the_project(view: View) -> bool | str:
    """86, 111: each finished task leaves one item, which every later task is shown."""
    past: list[str] = ["Tests are in tests/."]
    for turn in view.turns:
        for run in turn.runs:
            for call in run.calls:
                text = "".join(part.content for part in call.context.section("recall"))
                if any(item not in text for item in past):
                    return f"{run.agent} is told {text}, not {past}"
        past.append(f"Past task: {turn.reply}")
        kept = [item["text"] for item in turn.state["project_items"]]
        if kept != past:
            return f"the project knows {kept}, not {past}"
        tasks = [item["agent"] for item in turn.state["task_items"]]
        if tasks != [run.agent for run in turn.runs if run.calls]:
            return f"the task's items are those of {tasks}"
    return True


LABELS = {"create": "create_document", "update": "update_document", "replace": "replace_document"}


def a_decision_takes_the_branch_that_it_names(view: View) -> bool | str:
    """114-117, 121, 122: the label that it contains, the edge for everything else, a split."""
    for turn in view.turns:
        decision = turn.runs[0].output
        words = str(decision["decision"])
        branch = next((to for label, to in LABELS.items() if label in words), "ask_back")
        ran = [run.agent for run in turn.runs]
        expected = {
            "create_document": ["classify_request", "create_document", "finalize"],
            "update_document": ["classify_request", "update_document", "finalize"],
            "ask_back": ["classify_request", "ask_back"],
            "replace_document": [
                "classify_request",
                "replace_document",
                "create_document",
                "update_document",
                "finalize",
            ],
        }[branch]
        if sorted(ran) != sorted(expected) or ran[0] != expected[0] or ran[-1] != expected[-1]:
            return f"{ran} ran after {words!r}"
        if turn.runs[1].input != decision:
            return f"{ran[1]} gets {turn.runs[1].input}, not the decision"
    return True


def a_merge_sees_all_that_its_branches_did(view: View) -> bool | str:
    """119, 120, 123: each branch's output, its tool calls, and the decision."""
    for turn in view.turns:
        last = turn.runs[-1]
        branches = [run for run in turn.runs if run.agent in ("create_document", "update_document")]
        if last.agent != "finalize":
            continue
        expected = {run.agent: run.output for run in branches}
        if last.input != expected:
            return f"the merge gets {last.input}, not {expected}"
        for call in last.calls:
            text = "".join(part.content for part in call.context.section("upstream"))
            words = [label for label in LABELS if label in turn.runs[0].output["decision"]]
            for run in branches:
                words += [str(tool.result["page"]) for tool in tools_of(turn, run)]
            missing = [word for word in words if word not in text]
            if missing:
                return f"the merge is not shown {missing}: {text}"
    return True


def an_output_has_a_record_of_every_tool_call(view: View) -> bool | str:
    """98-102: call, tool, inputs, output or error, times, in order."""
    for turn in view.turns:
        for run in turn.runs:
            output = run.update["current_output"]
            if set(output) != {"result", "tool_calls"} or output["result"] != run.output["result"]:
                return f"{run.agent} puts out {output}"
            tools, records = tools_of(turn, run), output["tool_calls"]
            if len(records) != len(tools):
                return f"{run.agent} records {len(records)} of {len(tools)} calls"
            for record, tool in zip(records, tools, strict=True):
                values = [record.get(key) for key in ("tool", "args", "result", "error")]
                if values != [tool.tool, tool.args, tool.result, tool.error]:
                    return f"{run.agent} records {record}"
                if not any("at" in key.lower() or "start" in key for key in record):
                    return f"{run.agent} records no time in {record}"
    return True


def the_reader_is_told_the_first_tools_result(view: View) -> bool | str:
    """104: `tool_calls[0].output` of the search stands in the reader's instructions."""
    for turn in view.turns:
        first, reader = next(iter(tools_of(turn, turn.runs[1])), None), turn.runs[2]
        if first is None:
            continue
        text = "".join(part.content for part in reader.calls[0].context.section("instructions"))
        if any(file not in text for file in first.result) or "Found" in text:
            return f"the reader is told {text!r}, not {first.result}"
    return True


def a_poor_draft_is_refined_and_a_good_one_leaves(view: View) -> bool | str:
    """124, 125: `poor` leads by way of refine to where drafts are made, `good` to the exit."""
    for turn in view.turns:
        agents = [run.agent for run in turn.runs]
        rounds = agents.count("evaluate")
        loop = ["generate", "evaluate", "refine"] * (rounds - 1)
        if agents != [*loop, "generate", "evaluate", "exit"]:
            return f"{agents} ran"
        drafts = [run.output for run in turn.runs if run.agent == "generate"]
        if turn.state["drafts"] != drafts:
            return f"the drafts are {turn.state['drafts']}, not {drafts}"
        for before, run in zip(turn.runs, turn.runs[1:], strict=False):
            if run.input != before.output:
                return f"{run.agent} gets {run.input}, not {before.output}"
    return True


def results_are_kept_for_the_project(view: View) -> bool | str:
    """126, 127: every step's result is in the project's memory, for later steps and tasks."""
    kept: list[str] = []
    for turn in view.turns:
        for run in turn.runs:
            text = "".join(part.content for part in run.calls[0].context.section("recall"))
            if any(item not in text for item in kept):
                return f"{run.agent} is told {text}, not {kept}"
            if run.agent != "step3":
                kept.append(str(run.output))
        items = [item["text"] for item in turn.state["project_items"]]
        if items != kept:
            return f"the project knows {items}, not {kept}"
    return True


def what_was_found_stays_with_the_project(view: View) -> bool | str:
    """86, 126: one item for each search, of this task and of those before it."""
    for number, turn in enumerate(view.turns, 1):
        items = turn.state["project_items"]
        if len(items) != number or any(item["agent"] != "search" for item in items):
            return f"after {number} tasks the project knows {items}"
        if len(turn.state["task_items"]) != 1:
            return f"the task knows {turn.state['task_items']}"
    return True


def a_node_reads_its_prompt_first_and_its_input_last(view: View) -> bool | str:
    """55, 73, 74, 112: the prompt, then what its context assembles, then the input as it came."""
    for turn in view.turns:
        for run in turn.runs:
            for call in run.calls:
                sections = [name for name in call.context.sections if name != "run"]
                if sections[0] != "instructions" or sections[-1] != "input":
                    return f"{run.agent} is sent {sections}"
                shown = " ".join(part.content for part in call.context.section("input"))
                words = run.input.values() if isinstance(run.input, dict) else [run.input]
                if any(str(word) not in shown for word in words if isinstance(word, str)):
                    return f"{run.agent} reads {shown!r}, not {run.input}"
    return True


def parallel_results_are_kept_apart(view: View) -> bool | str:
    """85, 86, 134: the task's summary ends with the task, the project's is there for the next."""
    project = None
    for turn in view.turns:
        first = turn.runs[0].received
        if (first["task_summary"], first["project_summary"]) != (None, project):
            return f"a task begins with {first}"
        project = turn.state["project_summary"]
    return True
