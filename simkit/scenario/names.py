"""Names in a scenario file: each must be one of its pipeline's."""

from __future__ import annotations

from simkit.pipeline.model import Pipeline
from simkit.scenario.model import Scenario
from simkit.source import Document


def check_scenario(scenario: Scenario, document: Document, pipeline: Pipeline) -> None:
    """Raises SourceError for the first name that leads nowhere."""
    del scenario, document, pipeline
