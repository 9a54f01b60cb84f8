"""The pages of docs/reference/files/, made from the JSON Schemas of what users write."""

from __future__ import annotations

import json
import re
from collections.abc import Iterator, Mapping
from functools import cache
from typing import Any, Final

from simkit.language.matching.operators import descriptions
from simkit.providers.failures import FAILURES as FAILURES_BY_NAME
from simkit.spec.fields import FUNCTION_SCHEMA, METHOD_SCHEMA
from simkit.spec.json_schemas import json_schema_of, schemas
from simkit.spec.pipeline.recipe import KINDS, Section
from simkit.spec.scenario.model import Shared
from simkit.spec.scenario.replies import ToolLine

Schema = Mapping[str, Any]

COMMON: Final = "Common options"
MATCHERS: Final = "Matchers"
PAGES: Final[Mapping[str, Mapping[str, str]]] = {
    "scenario": {
        "Scenario": "Scenario",
        "Given": "Given",
        "Fake": "Who is made up",
        "XFail": "Known failure",
        "Use": "File under use",
        "CassetteOptions": "Cassette",
        "RecordOptions": "Record",
        "JudgeOptions": "Judge",
    },
    "turns": {
        "Turn": "Turn",
        "UserMessage": "User message",
        "ReplyLine": "Reply line",
        "HandoffLine": "Handoff line",
        "ErrorLine": "Error line",
        "UsageLine": "Usage line",
        "ThinkingLine": "Thinking line",
        "CitationLine": "Citation line",
        "ToolLine": "Tool result",
        "Fault": "Planned fault",
        "Moment": "Moment in a turn",
    },
    "claims": {
        "Expect": "Claims",
        "ContextClaims": "Claims on a context",
        "RunClaims": "Claims on a run",
    },
    "simulation": {
        "Simulation": "Simulation",
        "SimulatedUser": "Simulated user",
        "UserState": "State of a simulated user",
        "PlainMessage": "Message of a simulated user",
        "ModelLine": "Line of a simulated model",
        "SimulatedTool": "Simulated tool",
    },
    "pipeline": {
        "Pipeline": "Pipeline",
        "Channel": "Channel",
        "ReducerSpec": "Reducer with options",
        "AppendOptions": "Options of append",
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
        "ScenarioLimits": "Limits of a scenario",
        "Tokens": "Tokens",
    },
    "agents": {
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
    },
    "code": {
        "CodePipeline": "Pipeline that is code",
        "ProgramPipeline": "Pipeline that is a program",
        "AppOptions": "App",
        "StoreChannel": "Channel in a store",
        "Server": "Server",
        "McpServer": "Server over MCP",
        "RemoteAgent": "Remote agent",
        "ServerTool": "Tool of a server",
        "ServerEnd": "End of a server",
        "ServerChange": "Change of a server",
        "HttpAnswer": "Answer over HTTP",
        "AgentRule": "Attribution rule",
        "HandoffTool": "Tool that passes control",
        "Implements": "Implements",
    },
}
"""Each page to its kinds of things, and their headings; kinds with the same keys share one."""

HEADINGS: Final = {kind: name for page in PAGES.values() for kind, name in page.items()}


TITLES: Final = {
    "scenario": ("Keys of a scenario", "a scenario, of files under `use`, cassettes and judges"),
    "turns": (
        "Keys of a turn",
        "a turn: the user's message, what models and tools answer (mocks, stubs), and faults",
    ),
    "claims": (
        "Claims and matchers",
        "`expect` (assertions), and every operator of matchers (contains, matches, one of)",
    ),
    "simulation": ("Keys of a simulation", "a simulation"),
    "pipeline": (
        "Keys of a pipeline",
        "a pipeline in YAML: channels, tools, contracts, flows, limits",
    ),
    "agents": (
        "Keys of agents and sections",
        "an agent and of the sections that make its contexts",
    ),
    "code": (
        "Keys of pipelines in code",
        "a pipeline that is code or a program, and of its servers",
    ),
}
"""Each page's title, and the end of its first sentence."""

SAME_AS: Final = {
    "Simulation": "Scenario",
    "ModelLine": "ReplyLine",
    "JudgeOptions": "ModelOptions",
    "ScenarioLimits": "Limits",
    "Defaults": "Agent",
    "OlderThan": "Window",
    "PlainMessage": "UserMessage",
}
"""Kinds of things that share keys with another kind, which lists them."""

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
MATCHER: Final = "[matcher](claims.md#matchers)"
FAILURES: Final = "Names of failures"
TEXT: Final = ["string", "number", "boolean"]
TYPES: Final = {"string": "string", "number": "number", "boolean": "boolean"}
JSON_SCHEMA: Final = [{"type": ["object", "boolean"]}, FUNCTION_SCHEMA]


@cache
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


@cache
def page(name: str) -> str:
    """Return a whole page of the reference."""
    title, purpose = TITLES[name]
    parts = dict(_parts(name))
    if name == "turns":
        parts[FAILURES] = (
            f"{', '.join(map(_code, FAILURES_BY_NAME))}: see [faults](../../how-to/faults.md).\n"
        )
    if name == "claims":
        parts[MATCHERS] = _matchers()
    contents = ", ".join(f"[{heading}](#{anchor(heading)})" for heading in parts)
    text = "\n".join(f"## {heading}\n\n{part}" for heading, part in parts.items())
    text = f"# {title}\n\nAfter this page you know every key of {purpose}.\n\n{contents}\n\n{text}"
    return text.replace(f"]({name}.md#", "](#")


def _parts(page_name: str) -> Iterator[tuple[str, str]]:
    """Each heading of a page, and what stands below it."""
    common = kinds()["Section"]["properties"]
    sections = {model.__name__ for model in KINDS.values()} | {"Custom"}
    lines_by_heading: dict[str, list[str]] = {}
    for name, heading in PAGES[page_name].items():
        used = common if name in sections else {}
        lines = [line for key, line in _lines(name).items() if key not in used]
        if heading == COMMON and name != "Section":
            assert lines == [], f"{name} has options of its own, so it needs a list"
        elif heading in lines_by_heading:
            assert lines == lines_by_heading[heading], f"{name} needs a list of its own"
        else:
            lines_by_heading[heading] = lines
            notes = [f"It also has the {_link(COMMON)}."] if used else []
            if name in SAME_AS:
                lines, notes = _without_shared(name)
            parts = [_says(kinds()[name]), *notes, "\n".join(lines)]
            yield heading, "\n\n".join(filter(None, parts)) + "\n"


def _lines(name: str) -> dict[str, str]:
    """Each key of a kind of thing, and its line."""
    schema = kinds()[name]
    required = schema.get("required", ())
    properties = schema.get("properties", {})
    result = {}
    for key in sorted(properties, key=lambda key: key not in NAMING):
        value = properties[key]
        meaning = _flat(value["description"])
        if (name, key) in NOT_YET:
            meaning += " Not in this version: a file that has it is refused."
        elif (name, key) in NOTES:
            meaning += f" {NOTES[name, key]}"
        default = ", required" if key in required else _default(value)
        result[key] = f"- `{key}` ({type_of(value)}{default}): {meaning}"
    other = schema.get("additionalProperties")
    if isinstance(other, dict):
        key, meaning = OTHER_KEYS[name]
        result[key] = f"- {key} ({type_of(other)}): {meaning}"
    return result


def _without_shared(name: str) -> tuple[list[str], list[str]]:
    """Return the lines that another kind does not have, and a note that names its others."""
    lines, others = _lines(name), kinds()[SAME_AS[name]].get("properties", {})
    shared = [
        key
        for key, value in kinds()[name].get("properties", {}).items()
        if key in others and type_of(value) == type_of(others[key])
    ]
    names = ", ".join(f"`{key}`" for key in shared)
    note = f"{names}: as in {_link(HEADINGS[SAME_AS[name]])}."
    return [line for key, line in lines.items() if key not in shared], [note]


def _says(schema: Schema) -> str:
    says: str = schema["description"]
    if "oneOf" in schema and "exactly one" not in says:
        says += " Exactly one of these keys."
    return _flat(says)


def _default(value: Schema) -> str:
    default = value.get("default")
    return "" if default in (None, "", []) else f", default {_code(default)}"


def _code(value: Any) -> str:
    return f"`{value}`" if isinstance(value, str) else f"`{json.dumps(value)}`"


def _matchers() -> str:
    lines = "\n".join(
        f"- `{name}` ({type_of(operator.takes)}): {_flat(operator.says)}"
        for name, operator in descriptions().items()
    )
    return f"""A matcher is a value, which must be equal, or a mapping of operators; all must hold.
[Matching](../../how-to/claims.md#matching) says what lists and mappings mean.

`$contains` and `$regex` search the text of a value. A text is itself. The text of a message is its
content and the names and arguments of its calls; `$regex` searches each of them by itself. Null and
absent values have none. All else is JSON on one line, with a space after each comma and colon.

{lines}
"""


def anchor(heading: str) -> str:
    """A heading's name in links, as GitHub makes it."""
    return re.sub(r"[^\w -]", "", heading.lower()).replace(" ", "-")


def _flat(text: str) -> str:
    return " ".join(text.split())


def _link(heading: str) -> str:
    file = next(name for name, inside in PAGES.items() if heading in inside.values())
    return f"[{heading[0].lower()}{heading[1:]}]({file}.md#{anchor(heading)})"


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
        if set(schema["enum"]) == set(FAILURES_BY_NAME):
            return [f"[name of a failure](turns.md#{anchor(FAILURES)})"]
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
        return f"integer from {schema['minimum']}" if "minimum" in schema else "integer"
    if schema.get("pattern") == METHOD_SCHEMA["pattern"]:
        return "`module:function` or `module:Class.method`"
    if schema.get("pattern") == FUNCTION_SCHEMA["pattern"]:
        return "`module:function`"
    # A KeyError here: the schema says something that these words have no name for yet.
    return ANYTHING if kind is None else "text" if kind == TEXT else TYPES[kind]
