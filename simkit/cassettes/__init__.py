"""Cassettes: provider traffic, recorded once and replayed for ever, in vcrpy's own file layout.

From the ground up: ``values``, ``encodings`` and ``vcrpy``; ``reading``, ``dialects`` and
``loading`` from a file to values; ``format`` back; ``pieces``, ``redacting``, ``normalising`` and
``keys`` for which requests are the same; ``capturing``, ``reasons``, ``nearest``, ``missing``,
``telling`` and ``lookup`` for replay; ``recording`` and ``saving``; ``shapes``, ``tool_calls`` and
``traffic`` for one scenario's file at work; ``scanning`` and ``hygiene`` for files that exist.
"""

from simkit.cassettes.format import encoded
from simkit.cassettes.hygiene import OverAge, cassettes_in, orphans, over_age
from simkit.cassettes.keys import Keying, Question
from simkit.cassettes.loading import absent, load, loads
from simkit.cassettes.lookup import Drift, Player
from simkit.cassettes.missing import Miss
from simkit.cassettes.reasons import POLICIES, Policy
from simkit.cassettes.recording import Recorder
from simkit.cassettes.saving import save
from simkit.cassettes.scanning import Leak, scan, scan_file
from simkit.cassettes.telling import miss_text
from simkit.cassettes.values import Cassette, Interaction

__all__ = [
    "POLICIES",
    "Cassette",
    "Drift",
    "Interaction",
    "Keying",
    "Leak",
    "Miss",
    "OverAge",
    "Player",
    "Policy",
    "Question",
    "Recorder",
    "absent",
    "cassettes_in",
    "encoded",
    "load",
    "loads",
    "miss_text",
    "orphans",
    "over_age",
    "save",
    "scan",
    "scan_file",
]
