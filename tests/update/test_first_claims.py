"""A first full set of claims for turns that have none."""

from __future__ import annotations

from pathlib import Path

import pytest

from simkit.language.matching import holds
from simkit.update.first_claims import common, shape_of
from simkit.update.observed_values import MESSAGES_MAX
from tests.golden import assert_file_is
from tests.update.running import accepted, failing_claims, propose_claims
from tests.update.test_fixes import HEAD, ROWS, TURN

GOLDEN = Path(__file__).with_name("golden")


@pytest.mark.golden
def test_a_turn_without_claims_gets_a_full_set(tmp_path: Path) -> None:
    text = HEAD + TURN.replace("    expect:\n", "")

    new = accepted(text, tmp_path, propose_claims)

    assert_file_is(GOLDEN / "first-claims.txt", new.text)
    assert failing_claims(str(tmp_path / "a.scenario.yaml"), new.text) == []


def test_turns_with_claims_are_left_alone(tmp_path: Path) -> None:
    text = HEAD + TURN + "      reply: wrong\n"

    assert accepted(text, tmp_path, propose_claims).text == text


def test_turns_in_brackets_are_written_in_lines(tmp_path: Path) -> None:
    text = HEAD + "turns: [{user: 'Hi',  replies: {clerk: Yes}}]  \n"

    new = accepted(text, tmp_path, propose_claims)

    assert new.text.startswith(
        HEAD + "turns:\n"
        "  - user: 'Hi'\n"
        "    replies: {clerk: Yes}  \n"
        "    expect:\n"
        "      agents: [clerk]\n"
    )


def test_an_error_is_claimed_by_its_type(tmp_path: Path) -> None:
    text = HEAD + "turns:\n  - user: Hi\n    replies: {clerk: {error: rate_limit}}\n"

    new = accepted(text, tmp_path, propose_claims)

    assert "      agents: [clerk]\n      error: rate_limit\n      context:\n" in new.text
    assert failing_claims(str(tmp_path / "a.scenario.yaml"), new.text) == []


def test_an_error_that_says_what_the_scenario_lacks_is_not_claimed(tmp_path: Path) -> None:
    text = HEAD + "turns:\n  - user: Hi\n    replies: {boss: Yes}\n"

    assert accepted(text, tmp_path, propose_claims).text == text


def test_rows_of_a_table_get_what_they_have_in_common(tmp_path: Path) -> None:
    text = ROWS.replace("    expect:\n", "")

    new = accepted(text, tmp_path, propose_claims)

    assert (
        new.text
        == text
        + """\
    expect:
      agents: [clerk]
      context:
        clerk:
          sections: [instructions, current_message]
          current_message:
            - user: Hello
      handoffs: []
      tool_calls: []
"""
    )


def test_a_long_section_is_claimed_by_its_size(tmp_path: Path) -> None:
    turn = "  - user: Hi\n    replies: {clerk: Yes}\n    expect: {}\n"
    text = HEAD + "turns:\n" + turn * (MESSAGES_MAX // 2 + 1)
    text += "  - user: Hi\n    replies: {clerk: Yes}\n"

    new = accepted(text, tmp_path, propose_claims)

    assert f"          history: {{$len: {MESSAGES_MAX + 2}}}\n" in new.text


def test_a_large_value_is_claimed_by_its_shape() -> None:
    value = {"text": "word " * 40, "list": [{"a": "x" * 200}, 2], "one": [1], "n": 3, "empty": {}}

    claim = shape_of(value)

    assert claim == {
        "text": {"$starts": ("word " * 12).rstrip()},
        "list": {"$len": 2},
        "one": [1],
        "n": 3,
        "empty": {"$exact": {}},
    }
    assert holds(claim, value)


def test_what_claims_have_in_common_is_found_below_their_keys() -> None:
    data = {"a": {"b": 1, "c": [2]}, "d": {"$len": 1}, "e": [1], "f": {"g": 1}}
    other = {"a": {"b": 1, "c": [3]}, "d": {"$len": 2}, "e": [1], "f": 2}

    assert common([data, other]) == {"a": {"b": 1}, "e": [1]}
