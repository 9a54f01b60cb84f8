"""YAML documents with positions: what a file says, and where it says it.

The dialect is YAML 1.2's core schema, narrowed: only ``true``, ``false``, ``null`` and plain
numbers are typed; tags, tabs, merge keys and duplicate keys are errors. libyaml's composer reads,
``values`` makes plain values of its nodes, and a ``Document`` keeps the nodes, because their marks
are the positions. Every problem is a ``SourceError``.

From the ground up: ``nodes``, ``nearest``, ``syntax``, ``parsing``, ``values``, ``documents``,
``shelf``.
"""

from simkit.core.text import Open, near
from simkit.language.yaml.documents import (
    HEAD_KEYS,
    Document,
    DocumentCache,
    Head,
    flow_accident,
    heads,
    load,
    load_text,
)
from simkit.language.yaml.nodes import SourcePath, path_text
from simkit.language.yaml.parsing import FILE_BYTES_MAX, NESTING_MAX, NODES_MAX
from simkit.language.yaml.values import SourceFloat, SourceInt, text_of

__all__ = [
    "FILE_BYTES_MAX",
    "HEAD_KEYS",
    "NESTING_MAX",
    "NODES_MAX",
    "Document",
    "DocumentCache",
    "Head",
    "Open",
    "SourceFloat",
    "SourceInt",
    "SourcePath",
    "flow_accident",
    "heads",
    "load",
    "load_text",
    "near",
    "path_text",
    "text_of",
]
