"""Rules of the handoff pattern that relate one part of a conversation to another.

Each takes the trace's view, and returns true or what is wrong. The numbers are those of the rules.
"""

from __future__ import annotations

from collections.abc import Iterator

from simkit.trace.views import HandoffView, RunView, TurnView, View

PREVIEW = 200
TITLE = "**AGENT HANDOFF CONTEXT**:"
CLOSING = "When answering, reference data from the user's document."


def receivers(view: View) -> Iterator[tuple[TurnView, RunView, HandoffView]]:
    """Yield the runs that a handoff started, each with its turn and the handoff."""
    for turn in view.turns:
        by_id = {handoff.id: handoff for handoff in turn.handoffs}
        yield from ((turn, run, by_id[run.handoff]) for run in turn.runs if run.handoff in by_id)


def the_receiver_has_the_payload_in_its_state(view: View) -> bool | str:
    """214, 230, 241, 257: `shared_memory.handoff_context`, of this turn's handoff alone."""
    for turn in view.turns:
        for run in turn.runs:
            if not run.handoff and run.received["shared_memory"] != {}:
                return f"{run.agent} finds {run.received['shared_memory']} without a handoff"
        made = any(handoff.outcome == "made" for handoff in turn.handoffs)
        if not made and turn.state["shared_memory"] != {}:
            return f"{turn.state['shared_memory']} is left without a handoff"
    for _, run, handoff in receivers(view):
        if run.received.get("shared_memory") != {"handoff_context": handoff.payload}:
            return f"{run.agent} finds {run.received.get('shared_memory')}, not the payload"
    return True


def the_note_shows_a_document_that_has_content(view: View) -> bool | str:
    """231-233, 235, 246, 256: under the query, in one message, with a preview."""
    for _, run, handoff in receivers(view):
        document = handoff.payload["reference_document"]
        for call in run.calls:
            last = call.context.messages[-1].content
            if (TITLE in last) != document["has_content"]:
                return f"the note is there: {TITLE in last}; has_content: {document['has_content']}"
            if TITLE not in last:
                continue
            parts = [
                f"Delegated by: {handoff.event.from_agent}",
                f"User has reference document: {document['filename']}",
                f"Document: {document['content'][:PREVIEW]}",
                "Analysis so far",
            ]
            missing = [part for part in parts if part not in last]
            if missing or not last.endswith(CLOSING):
                return f"the note lacks {missing or CLOSING!r}: {last!r}"
            if len(document["content"]) > PREVIEW and document["content"][: PREVIEW + 1] in last:
                return f"the note shows more than {PREVIEW} characters"
            result = handoff.payload["analysis_context"]["calculation_results"]
            if result is not None and result not in last:
                return "the note does not show what was analysed so far"
    return True


def the_receiver_reads_query_and_conversation(view: View) -> bool | str:
    """217, 227, 229, 232, 242, 246: all that was said, and last the query with its note."""
    said: list[str] = []
    for turn in view.turns:
        assert turn.message is not None
        by_id = {handoff.id: handoff for handoff in turn.handoffs}
        answers: list[str] = []
        for run in turn.runs:
            handoff = by_id.get(run.handoff)
            query = turn.message.content if handoff is None else handoff.event.query
            before = said if handoff is None else [*said, turn.message.content, *answers]
            for call in run.calls:
                context = call.context
                own = len(context.section("run"))
                last = context.messages[len(context.messages) - own - 1]
                if last.role != "user" or not last.content.startswith(query):
                    return f"{run.agent} reads last {last.content!r}, not {query!r}"
                history = [message.content for message in context.section("history")]
                if history != before:
                    return f"{run.agent} reads {history}, not {before}"
                lookup = handoff and handoff.payload.get("conversation_context")
                if lookup and f"Conversation so far: {lookup}" not in last.content:
                    return f"{run.agent} does not read the conversation so far"
            if handoff is not None and run.message is not None:
                answers.append(run.message.content)
        said = [message.content for message in turn.state["messages"]]
    return True


def handoffs_are_counted_once_each(view: View) -> bool | str:
    """240, 260: a made handoff counts, a rejected one does not, and none is lost."""
    count = 0
    for turn in view.turns:
        count += sum(handoff.outcome == "made" for handoff in turn.handoffs)
        if turn.state["handoffs_received"] != count:
            return f"{turn.state['handoffs_received']} handoffs are counted, not {count}"
    return True


def a_lookup_replaces_chat_for_good(view: View) -> bool | str:
    """252-254: research's answer is the reply, the last agent's, and the next message is its."""
    selected, said = "chat_agent", []
    for turn in view.turns:
        assert turn.message is not None
        made = any(handoff.outcome == "made" for handoff in turn.handoffs)
        if turn.runs[0].agent != selected:
            return f"{turn.runs[0].agent} starts the turn, not {selected}"
        last = "research_agent" if made else selected
        said += [(None, turn.message.content), (last, turn.reply)]
        selected = last
        if [run.agent for run in turn.runs][-1] != last:
            return f"{turn.runs[-1].agent} has the last word, not {last}"
        for channel in ("last_agent", "primary_agent_selected"):
            if turn.state[channel] != last:
                return f"{channel} is {turn.state[channel]}, not {last}"
        messages = [(message.agent, message.content) for message in turn.state["messages"]]
        if messages != said:
            return f"the conversation is {messages}, not {said}"
    return True


def a_receiver_reads_what_was_said_before_its_query(view: View) -> bool | str:
    """229: the whole message list is passed; the query comes last."""
    for turn in view.turns:
        assert turn.message is not None
        before = [message.content for message in turn.state_before["messages"]]
        by_id = {handoff.id: handoff for handoff in turn.handoffs}
        for run in turn.runs:
            handoff = by_id.get(run.handoff)
            query = turn.message.content if handoff is None else handoff.event.query
            said = before if handoff is None else [*before, turn.message.content]
            for call in run.calls:
                history = [message.content for message in call.context.section("history")]
                current = [message.content for message in call.context.section("current_message")]
                if history[: len(said)] != said or current != [query]:
                    return f"{run.agent} reads {history} and {current}, not {said} and {query!r}"
    return True


def the_last_agent_has_the_last_word(view: View) -> bool | str:
    """266: who passed control on does not run again, and only the last one's words are kept."""
    said: list[str] = []
    for turn in view.turns:
        assert turn.message is not None
        agents = [run.agent for run in turn.runs]
        if len(agents) != len(turn.handoffs) + 1 or len(set(agents)) != len(agents):
            return f"{agents} ran for {len(turn.handoffs)} handoffs"
        last = turn.runs[-1]
        if len(turn.runs[0].calls) != 1 or last.message is None or turn.reply != last.output:
            return f"the reply {turn.reply!r} is not that of {last.agent}"
        said += [turn.message.content, last.message.content]
        messages = [message.content for message in turn.state["messages"]]
        if messages != said:
            return f"the conversation is {messages}, not {said}"
    return True


def an_answer_goes_back_one_level(view: View) -> bool | str:
    """228, 266: a delegate's answer is the result of its handoff, and of no handoff above it."""
    for turn, run, handoff in receivers(view):
        sources = [other for other in turn.runs if other.agent == handoff.event.from_agent]
        results = [m.content for r in sources for m in r.messages if m.role == "tool"]
        if run.status == "done" and not any(str(run.output) in result for result in results):
            return f"the answer of {run.agent} does not come back to {handoff.event.from_agent}"
        others = [other for other in turn.runs if other not in sources]
        for other in others:
            own = [m.content for m in other.messages if m.role == "tool"]
            if any(str(run.output) in result for result in own):
                return f"the answer of {run.agent} comes back to {other.agent}"
    return True


def a_prompt_comes_first_and_the_query_last(view: View) -> bool | str:
    """217, 227, 246: instructions, what was handed over and said, and the current message."""
    for turn in view.turns:
        for run in turn.runs:
            for call in run.calls:
                sections = [name for name in call.context.sections if name != "run"]
                places = [sections.index(name) for name in ("history", "current_message")
                          if name in sections]  # fmt: skip
                if sections[0] != "instructions" or places != sorted(places):
                    return f"{run.agent} is sent {sections}"
                if "current_message" not in sections:
                    return f"{run.agent} is not shown the current message"
    return True


def a_refused_source_is_told_and_asked_again(view: View) -> bool | str:
    """245, 248, 260: an invalid handoff is no end; the source learns why."""
    for turn in view.turns:
        for handoff in turn.handoffs:
            if handoff.outcome != "rejected":
                continue
            source = [run for run in turn.runs if run.agent == handoff.event.from_agent][-1]
            told = [m.content for m in source.messages if m.role == "tool"]
            if not any("rejected" in text for text in told) or not source.calls[-1].reply:
                return f"{source.agent} is not told that its handoff was rejected: {told}"
        if turn.reply is None:
            return f"turn {turn.number} has no reply"
    return True
