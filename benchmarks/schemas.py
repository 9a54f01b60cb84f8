"""JSON Schema: simkit's own validator beside `jsonschema` and `jsonschema-rs`, on schemas as tools
have them. Each is compiled once; a round validates one value many times."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from importlib.util import find_spec
from typing import Any, Final

from benchmarks.measuring import medians

TIMES: Final = 2_000
NAMES: Final = ("order", "customer", "amount", "currency", "note")
FLAT: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {name: {"type": "string"} for name in NAMES},
    "required": ["order"],
    "additionalProperties": False,
}
NESTED: Final[dict[str, Any]] = {
    "type": "object",
    "properties": {
        "lines": {"type": "array", "items": FLAT, "minItems": 1},
        "mode": {"enum": ["refund", "exchange"]},
        "total": {"type": "number", "minimum": 0},
    },
    "required": ["lines", "mode"],
}
FLAT_VALUE: Final = dict.fromkeys(NAMES, "x")
NESTED_VALUE: Final = {"lines": [FLAT_VALUE] * 5, "mode": "refund", "total": 7.5}
CASES: Final[Mapping[str, tuple[dict[str, Any], Any]]] = {
    "5 properties, valid": (FLAT, FLAT_VALUE),
    "5 properties, one wrong": (FLAT, FLAT_VALUE | {"amount": 7}),
    "5 objects in a list, valid": (NESTED, NESTED_VALUE),
    "5 objects in a list, two wrong": (NESTED, NESTED_VALUE | {"mode": "gift", "total": -1}),
}
Validate = Callable[[Any], list[Any]]


def validators() -> dict[str, Callable[[dict[str, Any]], Validate]]:
    """Return what compiles a schema, by library; those that are installed."""
    from simkit.language.json_schema import compile_schema

    def own(schema: dict[str, Any]) -> Validate:
        compiled = compile_schema(schema)
        return lambda value: list(compiled(value))

    def reference(schema: dict[str, Any]) -> Validate:
        from jsonschema import Draft202012Validator

        compiled = Draft202012Validator(schema)
        return lambda value: list(compiled.iter_errors(value))

    def rust(schema: dict[str, Any]) -> Validate:
        from jsonschema_rs import Draft202012Validator

        compiled = Draft202012Validator(schema)
        return lambda value: list(compiled.iter_errors(value))

    peers = {"jsonschema": reference, "jsonschema_rs": rust}
    return {"simkit": own} | {name: make for name, make in peers.items() if find_spec(name)}


def rows(rounds: int) -> list[list[object]]:
    """Return a row for each case: what one validation costs, and its ratio to simkit's own."""
    makers = validators()
    table: list[list[object]] = [["", *makers]]
    for case, (schema, value) in CASES.items():
        subjects = {name: _repeated(make(schema), value) for name, make in makers.items()}
        costs = medians(subjects, rounds)
        cells = [
            f"{cost / TIMES * 1e6:.1f} µs ({cost / costs['simkit']:.2f}×)"
            for cost in costs.values()
        ]
        table.append([case, *cells])
    return table


def _repeated(validate: Validate, value: Any) -> Callable[[], object]:
    def repeat() -> None:
        for _ in range(TIMES):
            validate(value)

    return repeat
