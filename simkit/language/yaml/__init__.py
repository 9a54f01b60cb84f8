"""YAML documents with positions: the values of a file, and their places.

The dialect is YAML 1.2's core schema, narrowed: only ``true``, ``false``, ``null`` and plain
numbers are typed; tags, tabs, merge keys and duplicate keys are errors. libyaml's composer parses;
``parsing`` makes plain values of its nodes; a ``Document`` keeps the nodes, because their marks are
the positions. Every problem is a ``SourceError``.

From the ground up: ``syntax``, ``parsing``, ``documents``.
"""

from simkit.core.text import Open, near
from simkit.language.yaml.documents import Document, DocumentCache, Head, flow_accident, load_text
from simkit.language.yaml.parsing import (
    FILE_BYTES_MAX,
    NESTING_MAX,
    SourceFloat,
    SourceInt,
    packed,
    text_of,
    unpacked,
)
from simkit.language.yaml.syntax import SourcePath, path_text
