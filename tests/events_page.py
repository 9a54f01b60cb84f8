"""The pages on events and their parts, made from the types of `simkit/trace/`."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TRACE = Path(__file__).resolve().parent.parent / "simkit" / "trace"
METADATA = ("ChannelFacts", "AgentFacts", "ContractFacts", "PipelineFacts")
"""Types for checks: claims under `events:` do not name their fields."""
EMPTY = ("''", "0", "()", "{}", "None", "False", "0.0")
"""Defaults that a field's type implies."""
HEAD = """# Events

After this page you know every event of a trace, and the fields that claims under `events:` name.
`simkit replay --show events` prints them. Each has the fields of [Event](event-parts.md#event);
[parts](event-parts.md) are the values in them. A field without a value is empty (`''`, `0`);
an empty text is absent in claims. `nox -s golden` makes this page from `simkit/trace/events.py`.

## A trace file

The first line is `{"simkit_trace":3}`, the version of the format; each other line is one event.
simkit refuses a trace of another version: run its scenario again. A large value that replaces the
one before it is written as what changes, in `update` or `values` of [StateUpdated](#stateupdated):

| written | the new value is the last one with |
|---|---|
| `{"log": {"$more": ["b", "c"]}}` | two items at the end of the list; a text has more letters |
| `{"memory": {"$with": {"seen": 7, "notes": {"$more": ["d"]}}}}` | two keys that change |
| `{"orders": {"$with": {"0": {"$with": {"state": "paid"}}}}}` | an item of the list that changes |

The last value is that of the last event with the same session, `state` and channel. A value of up
to 256 bytes, and one of which more than half changes, is written as a whole. `simkit.view_of`
returns whole values, and claims see them, those under `events:` too.
"""


PARTS_HEAD = """# Parts of events

After this page you know the values inside [events](events.md), such as messages and tool calls. A
field without a value is empty (`''`, `0`, `None`).
"""
PAGES = {"events": (("events", "asides"), HEAD), "event-parts": (("event_parts",), PARTS_HEAD)}
"""Each page to the modules of its types, and its beginning."""


def page(name: str) -> str:
    """Return a whole page."""
    modules, head = PAGES[name]
    sources = [(TRACE / f"{module}.py").read_text("utf-8") for module in modules]
    return head + "".join(part for source in sources for part in _parts(source))


def _parts(source: str) -> Iterator[str]:
    for node in ast.parse(source).body:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            if node.name in METADATA:
                continue
            bases = [ast.unparse(base) for base in node.bases]
            more = ""
            if bases and bases[0] not in ("Event", "msgspec.Struct", "Struct"):
                more = f" With the fields of [{bases[0]}](event-parts.md#{bases[0].lower()})."
            yield f"\n## {node.name}\n\n{_line(ast.get_docstring(node) or '')}{more}\n"
            fields = list(_fields(node))
            plain = [f"- {', '.join(name for name, text in fields if not text)}"]
            described = [f"- {name}: {text}" for name, text in fields if text]
            if fields:
                yield "\n" + "\n".join([*plain[: len(plain[0]) > 2], *described]) + "\n"


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, str]]:
    for place, field in enumerate(node.body):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        default = "" if field.value is None else ast.unparse(field.value)
        after = node.body[place + 1] if place + 1 < len(node.body) else None
        value = after.value if isinstance(after, ast.Expr) else None
        text = str(value.value) if isinstance(value, ast.Constant) else ""
        kind = f"`{ast.unparse(field.annotation)}`"
        if default not in ("", *EMPTY) and "(" not in default:
            kind += f", default `{default}`"
        yield f"`{field.target.id}` ({kind})", _line(text)


def _line(text: str) -> str:
    return " ".join(text.replace("``", "`").split())
