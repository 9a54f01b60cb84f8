"""docs/reference/events.md, made from the types of `simkit/trace/events.py` and of their parts."""

from __future__ import annotations

import ast
from collections.abc import Iterator
from pathlib import Path

TRACE = Path(__file__).resolve().parent.parent / "simkit" / "trace"
SOURCES = [TRACE / f"{name}.py" for name in ("events", "event_parts")]
METADATA = ("ChannelFacts", "AgentFacts", "ContractFacts", "PipelineFacts")
"""Types for checks: claims under `events:` do not name their fields."""
HEAD = """# Events

After this page you know every event of a trace, and the fields that claims under `events:` name.
A trace is a list of events: `simkit replay --show events` prints them, and claims under `events:`
name their fields. A text that is empty is absent in claims. This page is made from the types in
`simkit/trace/events.py`; `nox -s golden` writes it.

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


def page() -> str:
    """Return the whole page."""
    return HEAD + "".join(_parts())


def _parts() -> Iterator[str]:
    nodes = (node for file in SOURCES for node in ast.parse(file.read_text("utf-8")).body)
    for node in nodes:
        if isinstance(node, ast.ClassDef) and not node.name.startswith("_"):
            if node.name in METADATA:
                continue
            bases = [ast.unparse(base) for base in node.bases]
            yield f"\n## {node.name}\n\n{_line(ast.get_docstring(node) or '')}\n"
            rows = list(_fields(node))
            if rows:
                yield "\n| field | type | default | what |\n|---|---|---|---|\n"
                yield "".join(f"| {' | '.join(row)} |\n" for row in rows)
            if bases and bases[0] not in ("msgspec.Struct", "Struct"):
                yield f"\nBeside these it has the fields of [{bases[0]}](#{bases[0].lower()}).\n"


def _fields(node: ast.ClassDef) -> Iterator[tuple[str, str, str, str]]:
    for place, field in enumerate(node.body):
        if not isinstance(field, ast.AnnAssign) or not isinstance(field.target, ast.Name):
            continue
        default = "—" if field.value is None else f"`{ast.unparse(field.value)}`"
        after = node.body[place + 1] if place + 1 < len(node.body) else None
        value = after.value if isinstance(after, ast.Expr) else None
        text = value.value if isinstance(value, ast.Constant) else ""
        kind = ast.unparse(field.annotation).replace("|", "\\|")
        yield f"`{field.target.id}`", f"`{kind}`", default, _line(str(text)).replace("|", "\\|")


def _line(text: str) -> str:
    return " ".join(text.replace("``", "`").split())
