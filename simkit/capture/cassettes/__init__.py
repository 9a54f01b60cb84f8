"""Cassettes: provider traffic, recorded once and replayed, in vcrpy's file layout.

From the bottom up: ``values`` and ``encodings``; ``reading`` and ``vcrpy_layout`` from a file to
values, also from files of other recorders; ``saving`` back; ``redacting`` and ``keys`` for which
requests are the same; ``missing`` and ``lookup`` for replay; ``traffic`` for one scenario's file
during a run; ``hygiene`` for existing files.
"""

from simkit.capture.cassettes.hygiene import Leak, age_of, cassettes_in, scan_file
from simkit.capture.cassettes.keys import Keying, Question
from simkit.capture.cassettes.lookup import Drift, Player
from simkit.capture.cassettes.reading import absent, load, load_foreign, loads
from simkit.capture.cassettes.saving import encoded, save
from simkit.capture.cassettes.traffic import Recorder
from simkit.capture.cassettes.values import Cassette, Interaction
