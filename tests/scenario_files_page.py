"""Tables of docs/reference/scenario-files.md, made from the JSON Schemas of what users write."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from typing import Any, Final

from simkit.cli.schema import schemas
from simkit.language.matching.operators import OPERATORS
from simkit.spec.fields import FUNCTION_SCHEMA, METHOD_SCHEMA
from simkit.spec.json_schemas import json_schema_of
from simkit.spec.pipeline.recipe import KINDS, Section
from simkit.spec.scenario.model import Shared
from simkit.spec.scenario.replies import ToolLine

Schema = Mapping[str, Any]

COMMON: Final = "Options of every section"
MATCHERS: Final = "Matchers"
HEADINGS: Final[Mapping[str, str]] = {
    "Scenario": "Scenario",
    "Given": "Given",
    "Fake": "Who is made up",
    "Turn": "Turn",
    "UserMessage": "User message",
    "PlainMessage": "Message of a simulated user",
    "ReplyLine": "Reply line",
    "HandoffLine": "Handoff in a reply line",
    "ErrorLine": "Error in a reply line",
    "UsageLine": "Usage in a reply line",
    "ThinkingLine": "Thinking in a reply line",
    "CitationLine": "Citation in a reply line",
    "Fault": "Planned fault",
    "Moment": "Moment in a turn",
    "ToolLine": "Tool result",
    "Expect": "Claims",
    "ContextClaims": "Claims on a context",
    "RunClaims": "Claims on a run",
    "JudgeOptions": "Judge",
    "ScenarioLimits": "Limits of a scenario",
    "XFail": "Known failure",
    "Use": "File under use",
    "Simulation": "Simulation",
    "SimulatedUser": "Simulated user",
    "UserState": "State of a simulated user",
    "ModelLine": "Line of a simulated model",
    "SimulatedTool": "Simulated tool",
    "Pipeline": "Pipeline",
    "Channel": "Channel",
    "ReducerSpec": "Reducer with options",
    "AppendOptions": "Options of append",
    "CodePipeline": "Pipeline that is code",
    "ProgramPipeline": "Pipeline that is a program",
    "AppOptions": "App",
    "StoreChannel": "Channel in a store",
    "AgentRule": "Attribution rule",
    "HandoffTool": "Tool that passes control",
    "Implements": "Implements",
    "CassetteOptions": "Cassette",
    "RecordOptions": "Record",
    "Agent": "Agent",
    "Defaults": "Defaults",
    "Rule": "Rule",
    "Item": "Section",
    "Section": COMMON,
    "Instructions": COMMON,
    "CurrentMessage": COMMON,
    "Input": COMMON,
    "Task": COMMON,
    "Upstream": COMMON,
    "History": "Options of history",
    "FilterSpec": "Filter with options",
    "AgentFilter": "Filter by agent",
    "OlderThan": "Filter by age",
    "Window": "Window",
    "PreviousAgents": "Options of previous_agents",
    "Shared": "Options of shared",
    "HandoffSection": "Options of handoff",
    "Recall": "Options of recall, notes, memories",
    "Notes": "Options of recall, notes, memories",
    "Memories": "Options of recall, notes, memories",
    "Custom": "Options of a section of your own",
    "Tool": "Tool",
    "ModelOptions": "Model",
    "Contract": "Contract",
    "Query": "Query",
    "Flow": "Flow",
    "RouterFlow": "Flow router",
    "GraphFlow": "Flow graph",
    "Node": "Node",
    "Edge": "Edge",
    "RouteBy": "Route by",
    "SupervisorFlow": "Flow supervisor",
    "Goal": "Goal",
    "HandoffsFlow": "Flow handoffs",
    "Limits": "Limits",
    "Tokens": "Tokens",
}
"""Each kind of thing to its table, in the page's order; kinds with the same keys share one."""

OTHER_KEYS: Final = {
    "ContextClaims": ("a section's name", "The messages that this section made."),
    "Item": ("a name of your own", "A section that your own function makes."),
}
"""What a key is called that the author chooses, and what it says."""

NOT_YET: Final = frozenset({("UserMessage", "parts")})
"""Keys that this version refuses."""

NOTES: Final = {
    ("Scenario", "xfail"): "A text alone is the reason.",
    ("Given", "fakes"): "A number alone is how many, a text alone a locale.",
}
"""What is so of a key, beside what the schema says of it."""

NAMING: Final = ("version", "scenario", "simulation")
"""Keys that come first."""
ANYTHING: Final = "any value"
MATCHER: Final = "[matcher](#matchers)"
TEXT: Final = ["string", "number", "boolean"]
TYPES: Final = {"string": "string", "number": "number", "boolean": "`true` or `false`"}
JSON_SCHEMA: Final = [{"type": ["object", "boolean"]}, FUNCTION_SCHEMA]

HEAD: Final = "| key | type | default | meaning |\n|---|---|---|---|"


def kinds() -> dict[str, Schema]:
    """Every kind of thing that is written, by name."""
    text = schemas()
    result: dict[str, Schema] = {
        "Scenario": text["scenario"],
        "Simulation": text["simulation"],
        "Use": json_schema_of(Shared, "use"),
        "ToolLine": json_schema_of(ToolLine, "tool result"),
        "Pipeline": text["pipeline"],
        "CodePipeline": text["code"],
        "ProgramPipeline": text["program"],
        "Section": json_schema_of(Section, "section"),
    }
    for schema in list(result.values()):
        for name, inner in schema["$defs"].items():
            if not name.endswith("matcher"):
                result[name] = inner
    return result


def reference() -> str:
    """All tables, as the page holds them."""
    result = kinds()
    return "\n".join([*_tables(result), _matchers()])


def _tables(result: Mapping[str, Schema]) -> Iterator[str]:
    common = result["Section"]["properties"]
    sections = {model.__name__ for model in KINDS.values()} | {"Custom"}
    texts_by_name: dict[str, tuple[str, ...]] = {}
    for name, heading in HEADINGS.items():
        schema = result[name]
        used = common if name in sections else {}
        rows = tuple(_rows(name, schema, used))
        if heading == COMMON and name != "Section":
            assert rows == (), f"{name} has options of its own, so it needs a table"
        elif heading in texts_by_name:
            assert rows == texts_by_name[heading], f"{name} needs a table of its own"
        else:
            texts_by_name[heading] = rows
            note = f"Beside the [options of every section](#{anchor(COMMON)}):" if used else ""
            text = "\n\n".join(part for part in (_says(schema), note) if part)
            yield f"## {heading}\n\n{text}\n\n{HEAD}\n" + "\n".join(rows) + "\n"


def _says(schema: Schema) -> str:
    says: str = schema["description"]
    if "oneOf" in schema and "exactly one" not in says:
        says += " Exactly one of these keys."
    return _cell(says)


def _rows(name: str, schema: Schema, used: Mapping[str, Any]) -> Iterator[str]:
    required = schema.get("required", ())
    properties = schema.get("properties", {})
    for key in sorted(properties, key=lambda key: key not in NAMING):
        value = properties[key]
        if key in used:
            continue
        meaning = _cell(value["description"])
        if (name, key) in NOT_YET:
            meaning += " Not in this version: a file that has it is refused."
        elif (name, key) in NOTES:
            meaning += f" {NOTES[name, key]}"
        default = "required" if key in required else _default(value)
        yield f"| `{key}` | {type_of(value)} | {default} | {meaning} |"
    other = schema.get("additionalProperties")
    if isinstance(other, dict):
        key, meaning = OTHER_KEYS[name]
        yield f"| {key} | {type_of(other)} | — | {meaning} |"


def _default(value: Schema) -> str:
    default = value.get("default")
    return "—" if default in (None, "", []) else _code(default)


def _code(value: Any) -> str:
    return f"`{value}`" if isinstance(value, str) else f"`{json.dumps(value)}`"


def _matchers() -> str:
    rows = "\n".join(
        f"| `{name}` | {type_of(operator.takes)} | {_cell(operator.says)} |"
        for name, operator in OPERATORS.items()
    )
    says = "A matcher is a value, which must be equal, or a mapping of operators; all must hold."
    more = "[scenarios.md](../how-to/scenarios.md#matching) says what lists and mappings mean."
    more += (
        "\n\nThe text of a value, which `$contains` and `$regex` search: a text is itself, a "
        "message its content and the names and\narguments of its calls; null and what is absent "
        "have none. Of all else (lists, mappings, numbers, `true`) it is the JSON\non one line, "
        "with a space after each comma and colon. `$regex` searches content and each call by "
        "themselves."
    )
    head = "| operator | takes | holds of |\n|---|---|---|"
    return f"## {MATCHERS}\n\n{says}\n{more}\n\n{head}\n{rows}\n"


def anchor(heading: str) -> str:
    """A heading's name in links, as GitHub makes it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def _cell(text: str) -> str:
    return " ".join(text.split()).replace("|", "\\|")


def _link(heading: str) -> str:
    return f"[{heading[0].lower()}{heading[1:]}](#{anchor(heading)})"


def type_of(schema: Schema) -> str:
    """What may stand where a schema holds, in words."""
    *most, last = _alternatives(schema)
    return f"{', '.join(most)} or {last}" if most else last


def _alternatives(schema: Schema) -> list[str]:
    if "$ref" in schema:
        name = schema["$ref"].rpartition("/")[2]
        return [MATCHER if name.endswith("matcher") else _link(HEADINGS[name])]
    if schema == {"not": {"const": []}}:
        return [_link(HEADINGS["ToolLine"])]
    for word in ("anyOf", "oneOf"):
        if word in schema:
            return _union(schema[word])
    if "allOf" in schema:
        return _alternatives(schema["allOf"][-1])
    if "const" in schema:
        return [_code(schema["const"])]
    if "enum" in schema:
        return [_code(value) for value in schema["enum"]]
    return [_simple(schema)]


def _union(members: list[Schema]) -> list[str]:
    if members == JSON_SCHEMA:
        return ["JSON Schema", "`module:Model`"]
    if members[0] == {"enum": list(KINDS)}:
        # Their names are the rows of the table that the other member links to.
        members = members[1:]
    given = [member for member in members if member != {"type": "null"}]
    names = [type_of(member) for member in given]
    for item in given:
        if len(given) == 2 and _of("list of", item) in names:
            return [*_alternatives(item), "several in a list"]
    return list(dict.fromkeys(name for member in given for name in _alternatives(member)))


def _of(subject: str, schema: Schema) -> str:
    """A list of, or a mapping to, what a schema says."""
    inner = type_of(schema)
    if inner == ANYTHING:
        return subject.partition(" ")[0]
    if subject == "list of" and inner in ("mapping", "string"):
        return f"{subject} {inner}s"
    return f"{subject} ({inner})" if len(_alternatives(schema)) > 1 else f"{subject} {inner}"


def _simple(schema: Schema) -> str:
    kind = schema.get("type")
    if kind == "array":
        return _of("list of", schema.get("items", {}))
    if kind in ("object", ["object", "null"]):
        if "properties" in schema:
            return f"mapping of {', '.join(f'`{key}`' for key in schema['properties'])}"
        inner = schema.get("additionalProperties")
        return _of("mapping to", inner if isinstance(inner, dict) else {})
    if kind == "integer":
        return f"whole number from {schema['minimum']}" if "minimum" in schema else "whole number"
    if schema.get("pattern") == METHOD_SCHEMA["pattern"]:
        return "`module:function` or `module:Class.method`"
    if schema.get("pattern") == FUNCTION_SCHEMA["pattern"]:
        return "`module:function`"
    # A KeyError here: the schema says something that these words have no name for yet.
    return ANYTHING if kind is None else "text" if kind == TEXT else TYPES[kind]
