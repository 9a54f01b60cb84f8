"""What an agent reads, told a second time, from the documents alone."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.oracle.values import (
    NOT_THERE,
    Branch,
    Entry,
    Handoff,
    JsonText,
    Open,
    Run,
    Turn,
    TurnEnds,
    as_json,
    as_text,
    at,
    filled,
    holds,
    tokens_of,
)  # fmt: skip

RECALLED = ("recall", "notes", "memories")
START = datetime(2026, 1, 5, 9, tzinfo=UTC)
"""When a scenario begins that does not say when; how long it takes is nothing to days."""
INTERMEDIATE = ["tool_messages", "tool_calls", "intermediate_ai"]
DEFAULT_RECIPE = ["instructions", "handoff", "history", "current_message"]


class Contexts:
    """The contexts of a pipeline's agents, as their recipes make them of state and log."""

    pipeline: Mapping[str, Any]
    channels: Mapping[str, Any]
    conversation: str
    flow: str
    question: Entry
    committed: set[Entry]

    script: Any
    session: str
    turn: Turn
    lines: dict[str, list[Any]]
    late: int
    """Virtual time that the summaries of the context take that is being made."""
    summaries: dict[Any, tuple[str, set[Entry]]]

    def line(self, name: str, agent: str, run: Run | None) -> Mapping[str, Any]:
        """Returns what a model answers to the next call of an agent."""
        raise NotImplementedError

    def take_down(self, message: Entry, branch: Branch | None) -> None:
        """Adds a message to the log."""
        raise NotImplementedError

    def state(self, only: Iterable[str] | None = None) -> dict[str, Any]:
        """Returns what a run sees of the channels."""
        raise NotImplementedError

    def setting(self, agent: str, key: str, default: Any) -> Any:
        """Returns what an agent, or else the defaults, say."""
        of_all = self.pipeline.get("defaults", {})
        return self.pipeline["agents"][agent].get(key, of_all.get(key, default))

    def context(self, agent: str, root: Mapping[str, Any], run: Run,
                handoff: Handoff | None) -> list[dict[str, Any]]:  # fmt: skip
        """Returns the messages that a recipe makes, each with its sections."""
        standard = [*DEFAULT_RECIPE, "task"] if self.flow == "supervisor" else DEFAULT_RECIPE
        recipe = self.setting(agent, "context", standard)
        flat = [s for entry in recipe for s in (entry if isinstance(entry, list) else [entry])]
        current = any(
            kind == "current_message" and holds(options.get("when", {}), root)
            for kind, options in map(_section, flat)
        )
        rows: list[dict[str, Any]] = []
        for entry in recipe:
            if not isinstance(entry, list):
                rows += self.section(agent, *_section(entry), root, run, handoff, current)
                continue
            parts = [
                p
                for e in entry
                for p in self.section(agent, *_section(e), root, run, handoff, current)
            ]
            if parts:
                text = Open(tuple(p["message"].content for p in parts))
                text = parts[0]["message"].content if len(parts) == 1 else text
                message = Entry(parts[0]["message"].role, text)
                names = [name for p in parts for name in p["names"]]
                rows.append({"message": message, "names": names})
        return rows

    def section(
        self,
        agent: str,
        kind: str,
        options: Mapping[str, Any],
        root: Mapping[str, Any],
        run: Run,
        handoff: Handoff | None,
        current: bool,
    ) -> list[dict[str, Any]]:
        """Returns what one section makes."""
        name = options.get("name", kind)
        if not holds(options.get("when", {}), root):
            return []
        if kind == "history":
            messages, dropped = self.history(agent, options, root, run, handoff, current)
            if options.get("as") == "text" and messages:
                whole = Open(tuple(m.content for m in messages if isinstance(m.content, str)))
                messages = [Entry("user", whole)]
            rows = [{"message": m, "names": [name]} for m in messages]
            return [*rows, {"dropped": dropped}] if dropped else rows
        value, role = self.value(agent, kind, options, root, handoff)
        left: list[dict[str, Any]] = []
        if kind in RECALLED:
            value, missing = self.recalled(kind, options, root)
            left = [{"left": missing}] if missing else []
        if kind in ("upstream", "previous_agents"):
            value = getattr(self, f"_{kind}")(agent, options, root)
        role = "user" if options.get("as") == "text" else role
        if value is None or value == "" or value == [] or value == {}:
            return left
        if isinstance(value, Open) and "format" not in options:
            around = [(options[key],) if key in options else () for key in ("title", "after")]
            value.parts = (*around[0], *value.parts, *around[1])
            message = Entry(options.get("role", role), value)
            return [{"message": message, "names": [name]}, *left]
        text = filled(options["format"], root) if "format" in options else as_text(value)
        lines = [options.get("title"), text, options.get("after")]
        text = "\n".join(line for line in lines if line is not None)
        if kind == "handoff" and "fields" in options and "format" not in options:
            text = Open(
                tuple(part for label, item in value.items() for part in (label, as_text(item)))
            )
        return [{"message": Entry(options.get("role", role), text), "names": [name]}, *left]

    def value(
        self,
        agent: str,
        kind: str,
        options: Mapping[str, Any],
        root: Mapping[str, Any],
        handoff: Handoff | None,
    ) -> tuple[Any, str]:
        """Returns what a section shows, and the role in which it does."""
        if kind == "instructions":
            return filled(self.pipeline["agents"][agent].get("instructions"), root), "system"
        if kind == "current_message":
            query = handoff.query if handoff else None
            return (self.question.content if query is None else query), "user"
        if kind == "handoff":
            if handoff is None:
                return None, "system"
            if "fields" not in options and "format" not in options and handoff.payload is None:
                return None, "system"
            if "fields" not in options:
                return JsonText(as_json(handoff.payload)), "system"
            return _fields(options["fields"], handoff.root()), "system"
        if kind == "shared":
            value = root["state"].get(options["from"])
            return (_fields(options["fields"], value) if "fields" in options else value), "system"
        if kind in (*RECALLED, "upstream", "previous_agents"):
            return None, "system"
        return root[kind], "user"

    def recalled(
        self, kind: str, options: Mapping[str, Any], root: Mapping[str, Any]
    ) -> tuple[Any, list[str]]:
        """Returns what a section recalls, a line for each item in its order, and what it leaves."""
        channels = options.get("from", kind)
        channels = channels if isinstance(channels, list) else [channels]
        items = [(name, item) for name in channels for item in root["state"].get(name) or []]
        chosen = _chosen(kind, options, items)
        left = [item["text"] for name, item in items if (name, item) not in chosen]
        if not chosen:
            return None, left
        parts: list[str] = []
        for name in channels:
            of_name = [item for channel, item in chosen if channel == name]
            if len(channels) > 1 and of_name:
                parts.append(name + ":")
            form = "[{at}] ({agent}): {text}" if kind == "notes" else "{text}"
            parts += [form.format_map(item | {"at": item["at"][:10]}) for item in of_name]
        if kind == "notes":
            return "\n".join(parts), left
        heading = ("# Relevant Long-Term Memories",) if kind == "memories" else ()
        return Open((*heading, *parts), tuple(left)), left

    def _upstream(self, agent: str, options: Mapping[str, Any], root: Mapping[str, Any]) -> Any:
        parts: list[str] = []
        for node, run in (root["upstream"] or {}).items():
            parts += [node, as_json(run.output), *(tool for tool, _ in run.tools)]
        return Open(tuple(parts), anyhow=True) if parts else None

    def _previous_agents(
        self, agent: str, options: Mapping[str, Any], root: Mapping[str, Any]
    ) -> Any:
        others = {
            name: run
            for name, run in (root["state"].get("agent_outputs") or {}).items()
            if name != root["agent"]
        }
        parts: list[str] = []
        for name, run in others.items():
            reply = run["reply"] or ""
            parts += [name, reply[: options.get("truncate", len(reply))]]
            if options.get("structured_data", True) and run["tool_results"]:
                parts += [as_json(result) for result in run["tool_results"].values()]
        return Open(tuple(parts)) if parts else None

    def history(
        self,
        agent: str,
        options: Mapping[str, Any],
        root: Mapping[str, Any],
        run: Run,
        handoff: Handoff | None,
        current: bool,
    ) -> tuple[list[Entry], list[Any]]:
        """Returns what was said before a run, as a section shows it, and what it left out."""
        conversation = self.talk
        if root["state"].get(self.conversation) is not None:
            conversation = root["state"][self.conversation]
        whole = run.log if options.get("from") == "log" else conversation
        travels = handoff.contract.get("history", "all") if handoff else "all"
        if current and (handoff is None or handoff.query is None):
            whole = [m for m in whole if m is not self.question]
        if travels == "none":
            return [], []
        before = (
            {"all": [], "filters": INTERMEDIATE}[travels] if isinstance(travels, str) else travels
        )
        dropped: list[Any] = []
        pairs = [(m, m) for m in whole]
        for one_filter in [*before, *options.get("filters", [])]:
            if "older_than" in one_filter:
                pairs = self.aged(one_filter["older_than"], _filled(pairs, dropped), dropped)
            else:
                pairs = list(self.filtered(one_filter, pairs, dropped))
        pairs = _filled(pairs, dropped)
        window = _window(options.get("window", {}), pairs)
        dropped += [(m, "message", "window") for m, _ in pairs[: len(pairs) - len(window)]]
        dropped.sort(key=lambda entry: entry[0].number)
        results = [output for _, output in window]
        left = pairs[: len(pairs) - len(window)]
        if "summary" in options and left:
            key = (self.session, agent, options.get("name", "history"),
                   id(handoff.contract) if handoff and travels != "all" else None)  # fmt: skip
            results.insert(0, self.summarised(options["summary"], key, left, run))
        return results, dropped

    def summarised(self, agent: str, key: Any, left: list[tuple[Entry, Entry]], run: Run) -> Entry:
        """Returns the summary of what a window leaves out: it rolls."""
        last, covered = self.summaries.get(key, (None, set()))
        fresh = [(message, output) for message, output in left if message not in covered]
        if fresh:
            words = self.pipeline["agents"][agent]["instructions"]
            before = [Entry("system", words), *([Entry("system", last)] if last else [])]
            self.turn.summaries.append(
                {"agent": agent, "messages": [*before, *(output for _, output in fresh)]}
            )
            line = self.line(agent, agent, None)
            self.late += line.get("latency_ms", 0)
            if "error" in line:
                raise TurnEnds(line["error"])
            last = line["text"]
            self.take_down(Entry("assistant", last, agent, run=run), run.branch)
            self.summaries[key] = (last, covered | {message for message, _ in fresh})
        return Entry("system", last)

    @property
    def talk(self) -> list[Entry]:
        """The conversation as it is."""
        return list(self.state()[self.conversation])

    def aged(
        self, age: Mapping[str, Any], pairs: list[tuple[Entry, Entry]], dropped: list[Any]
    ) -> list[tuple[Entry, Entry]]:
        """Returns a history of which only what a window would leave out is filtered."""
        newer = _window({key: age[key] for key in age if key != "filters"}, pairs)
        older = pairs[: len(pairs) - len(newer)]
        if "filters" not in age:
            dropped += [(message, "message", "older_than") for message, _ in older]
            return newer
        for one_filter in age["filters"]:
            older = list(self.filtered(one_filter, older, dropped))
        return [*_filled(older, dropped), *newer]

    def filtered(
        self, one_filter: Any, pairs: list[tuple[Entry, Entry]], dropped: list[Any]
    ) -> Iterable[tuple[Entry, Entry]]:
        """Yields what one filter leaves of a history: the message, and what is shown of it."""
        by = one_filter if isinstance(one_filter, str) else next(iter(one_filter))
        for message, visible in pairs:
            left: Entry | None = visible
            if (by == "tool_messages" and visible.role == "tool") or (
                by == "handoffs" and visible.answers.startswith("transfer_to_")
            ):
                left = None
            elif by in ("tool_calls", "handoffs") and visible.calls:
                calls = tuple(c for c in visible.calls if by == "handoffs"
                              and not c[0].startswith("transfer_to_"))  # fmt: skip
                if len(calls) < len(visible.calls):
                    left = Entry(visible.role, visible.content, visible.agent, calls)
            elif by == "intermediate_ai":
                if visible.role == "assistant" and message not in self.committed:
                    left = None
            elif by == "drop":
                if all(getattr(visible, key) == value for key, value in one_filter["drop"].items()):
                    left = None
            elif by == "agents" and visible.role != "user":
                rule = one_filter["agents"]
                if visible.agent not in rule.get(
                    "only", [visible.agent]
                ) or visible.agent in rule.get("not", []):
                    left = None
            if left is None:
                dropped.append((message, "message", by))
            else:
                if left is not visible:
                    dropped.append((message, "tool_calls", by))
                yield message, left


def _chosen(
    kind: str, options: Mapping[str, Any], items: list[tuple[str, Any]]
) -> list[tuple[str, Any]]:
    """Returns the items that a section recalls, in its order, each with its channel."""
    since = START - timedelta(days=options.get("since_days", 10_000))
    pairs = [
        (name, item)
        for name, item in items
        if ("tags" not in options or set(options["tags"]) & set(item.get("tags", ())))
        and item["score"] >= options.get("threshold", 0)
        and datetime.fromisoformat(item["at"]) >= since
        and any(span["from"] <= item["at"][:10] <= span["to"]
                for span in options.get("time_ranges", [{"from": "0", "to": "9"}]))
    ]  # fmt: skip
    by_score = options.get("order", "score" if kind == "memories" else "") == "score"
    pairs.sort(key=lambda item: item[1]["score" if by_score else "at"],
              reverse=options.get("order") != "oldest_first")  # fmt: skip
    pairs = pairs[: options.get("max", len(pairs))]
    if "top" in options:
        best = sorted(pairs, key=lambda item: -item[1]["score"])[: options["top"]]
        pairs = [pair for pair in pairs if pair in best]
    return pairs


def _section(entry: Any) -> tuple[str, Mapping[str, Any]]:
    return (entry, {}) if isinstance(entry, str) else next(iter(entry.items()))


def _fields(fields: Mapping[str, str], value: Any) -> dict[str, Any]:
    by_name = {label: at(value, path) for label, path in fields.items()}
    return {label: item for label, item in by_name.items() if item not in (NOT_THERE, None)}


def _filled(pairs: list[tuple[Entry, Entry]], dropped: list[Any]) -> list[tuple[Entry, Entry]]:
    """Returns a history without the messages of which filters have left nothing."""
    empty = [m for m, output in pairs if m is not output and not (output.calls or output.content)]
    dropped += [(m, "message", next(by for n, _, by in reversed(dropped) if n is m)) for m in empty]
    return [pair for pair in pairs if pair[0] not in empty]


def _window(
    window: Mapping[str, int], pairs: list[tuple[Entry, Entry]]
) -> list[tuple[Entry, Entry]]:
    unit, size = next(iter(window.items()), ("messages", 0))
    if not size:
        return pairs
    if unit == "messages":
        return pairs[-size:]
    if unit == "rounds":
        starts = [i for i, (_, output) in enumerate(pairs) if output.role == "user"]
        return pairs[starts[-size] :] if len(starts) >= size else pairs
    place, used = len(pairs), 0
    while place and used + tokens_of(pairs[place - 1][1].content) <= size:
        place -= 1
        used += tokens_of(pairs[place][1].content)
    return pairs[place:]
