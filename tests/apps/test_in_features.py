"""Features about pipelines that are code: named by a file with its rules, or by the function."""

from __future__ import annotations

import pytest

pytest.importorskip("openai")

CODE = """\
from openai import OpenAI

import simkit

client = OpenAI()


def ask(text):
    messages = [{"role": "system", "content": "You help."}, {"role": "user", "content": text}]
    return client.chat.completions.create(model="m", messages=messages).choices[0].message.content


@simkit.agent("helper")
def marked(text):
    return ask(text)
"""
PIPELINE = """\
version: 1
pipeline: counter
code: counter_desk:ask
app: {path: [.]}
agents: {help_desk: You help.}
"""
FEATURE = """\
Feature: A counter
  Scenario: A file says whose each call is
    Given the pipeline "counter"
    When the user says "Hello"
    And the help desk replies "Hi."
    Then the reply is "Hi."

  Scenario: The code says it itself
    Given the pipeline "counter_desk:marked"
    When the user says "Hello"
    And helper replies "Hi."
    Then the reply is "Hi."

  Scenario: Nobody says it
    Given the pipeline "counter_desk:ask"
    When the user says "Hello"
    And helper replies "Hi."
    Then the reply is "Hi."
"""
STEPS = """\
from pytest_bdd import scenarios
from simkit.bdd import *

scenarios(".")
"""


@pytest.mark.slow
def test_a_feature_names_code_by_a_file_or_by_the_function(pytester: pytest.Pytester) -> None:
    pytester.makefile(".feature", counter=FEATURE)
    pytester.makefile(".pipeline.yaml", counter=PIPELINE)
    pytester.makepyfile(counter_desk=CODE, test_features=STEPS)

    done = pytester.runpytest_subprocess("-p", "no:cacheprovider", "-p", "no:randomly")

    done.assert_outcomes(passed=2, failed=1)
    done.stdout.fnmatch_lines(["counter.feature:15:5: a model call belongs to no agent: POST *"])
