"""Every word of Faker's is the same on every day; who is made up is the same person everywhere."""

from __future__ import annotations

import json
import re
from collections.abc import Mapping
from pathlib import Path
from typing import Any, Final

import pytest

import simkit
from simkit.core.errors import ReferenceInvalid, SourceError
from simkit.core.rng import Chance
from simkit.session.simulate import run, simulate
from simkit.spec.scenario.fakes import BASICS, Fakes, Words
from simkit.spec.scenario.files import Library, Prepared
from simkit.spec.scenario.items import items_in
from tests.processes import run_python

START = "2026-01-05T09:00:00Z"

ALL = """
import json, sys
import time_machine
from simkit.core.errors import ReferenceInvalid
from simkit.core.rng import Chance
from simkit.spec.scenario.fakes import Fakes, Words

def word(fakes, name):
    try:
        return fakes[name]
    except ReferenceInvalid as problem:
        return ["refused", str(problem)]

with time_machine.travel(sys.argv[1], tick=True):
    fakes = Fakes(Words("2026-01-05T09:00:00Z"), Chance(7).child("fake"))
    print(json.dumps({name: word(fakes, name) for name in fakes.known()}, sort_keys=True))
"""


def fakes_of(seed: int) -> Fakes:
    """The words of a scenario of this seed."""
    return Fakes(Words(START), Chance(seed).child("fake"))


def words_on(day: str, hash_seed: str) -> dict[str, Any]:
    """All words, in a process of its own, as if that were the day today."""
    done = run_python(
        "-W",
        "ignore",
        "-c",
        ALL,
        day,
        folder=Path(__file__).parents[3],
        PYTHONHASHSEED=hash_seed,
        TZ="Asia/Tokyo" if day > "2030" else "",
    )
    assert done.returncode == 0, done.stderr
    data: dict[str, Any] = json.loads(done.stdout)
    return data


@pytest.mark.slow
def test_all_of_fakers_words_are_the_same_on_two_days_and_in_two_processes() -> None:
    words, other = words_on("2026-02-03", "1"), words_on("2041-11-30", "2")

    refused = [name for name, word in words.items() if isinstance(word, list) and "refused" in word]
    assert len(words) > 250
    assert {name: (words[name], other[name]) for name in words if words[name] != other[name]} == {}
    assert len(refused) < 12, refused
    assert " at 0x" not in json.dumps(words)


@pytest.mark.parametrize(
    ("word", "most"),
    [
        ("date_this_year", "2026-01-05"), ("date_this_month", "2026-01-05"),
        ("past_date", "2026-01-05"), ("date_time_this_year", "2026-01-05 09:00:00"),
        ('date_between("-2d", "-1d")', "2026-01-04"),
    ],
)  # fmt: skip
def test_dates_count_from_the_start(word: str, most: str) -> None:
    text = str(fakes_of(3)[word])

    assert "2025-12-01" < text <= most


@pytest.mark.parametrize(
    ("word", "fits"),
    [
        ("random_int(1, 6)", lambda result: 1 <= result <= 6),
        ("random_int(min=1, max=6)[2]", lambda result: 1 <= result <= 6),
        ("pyfloat(min_value=1.5, max_value=2.5)", lambda result: 1.5 <= result <= 2.5),
        ('random_element(("red", "blue"))', lambda result: result in ("red", "blue")),
        ("de_DE.postcode", lambda result: len(result) == 5),
        ("random_element", lambda result: result in "abc"),
        ("pyset(3)", lambda result: isinstance(result, list)),
        ("profile", lambda result: "@" in result["mail"]),
        ("bothify('??-##')", lambda result: result[2] == "-"),
    ],
)
def test_what_faker_has_can_be_asked_for(word: str, fits: Any) -> None:
    assert fits(fakes_of(1)[word])
    assert fakes_of(1)[word] == fakes_of(1)[word]


def test_arguments_are_the_same_however_they_are_spaced() -> None:
    fakes = fakes_of(1)

    assert fakes["random_int(1,999999)"] == fakes["random_int(1, 999999)"]
    assert fakes["random_int(1, 999999)"] != fakes["random_int(1, 999999)[1]"]


@pytest.mark.parametrize(
    ("word", "reply"),
    [
        ("random_int(6, 1)", "Faker's `random_int` failed: ValueError: "),
        ("random_int(x)", "`(x)` must be arguments as Python writes them: (1, 6), "),
        ("random_int(**{'min': 5})", "`(**{'min': 5})` must be arguments as Python writes them"),
        ("random_int(1, 6)(7)", "`(1, 6)(7)` must be arguments as Python writes them"),
        ("xx_XX.name", "Faker has no locale `xx_XX`"),
        ("seed_instance", "`seed_instance` is a method of Faker's that gives no word"),
        ("add_provider", "`add_provider` is a method of Faker's that gives no word"),
    ],
)
def test_what_faker_does_not_take_is_told(word: str, reply: str) -> None:
    with pytest.raises(ReferenceInvalid) as refused:
        fakes_of(1)[word]

    assert str(refused.value).startswith(reply)


def test_a_word_that_is_none_is_unknown() -> None:
    assert fakes_of(1).get("nmae") is None


SHOP: Final = """
version: 1
pipeline: shop
channels:
  messages: {reducer: append, scope: session}
  customer: {scope: session}
agents:
  clerk:
    instructions: You help customers.
    tools: [find_orders]
    context: [instructions, shared: {from: customer}, history, current_message]
tools: {find_orders: {args: {type: object, required: [email]}}}
flow: {handoffs: {start: clerk}}
---
version: 1
scenario: the order of the right customer
pipeline: shop
seed: 3
given:
  fakes:
    customers: {count: 3, locale: de_DE}
    orders:
      count: 2
      values:
        number: "${fake.unique.bothify('A-####')}"
        owner: "${customers[0].name}"
        total: ${fake.random_int(10, 90)}
  state: {customer: "${customers[0]}"}
turns:
  - user: I am ${customers[0].name}, ${customers[0].email}. Where is ${orders[1].number}?
    replies:
      clerk:
        - calls: [find_orders: {email: "${customers[0].email}"}]
        - ${orders[1].number} is on its way to ${customers[0].street_address}.
    tool_results: {find_orders: {returns: "${orders}"}}
    expect:
      reply: {$contains: "${customers[0].street_address}"}
      tool_calls: [{args: {email: "${customers[0].email}"}}]
      context: {clerk: {includes: [{$contains: "${customers[0].postcode}"}]}}
      state: {customer: {email: "${customers[0].email}"}}
"""


def prepared(text: str, file: Path, row: int = 0) -> Prepared:
    """The scenario of a text that becomes a file."""
    file.write_text(text, encoding="utf-8")
    return Library().prepared(items_in(str(file))[row])


@pytest.fixture
def file(tmp_path: Path) -> Path:
    return tmp_path / "t.scenario.yaml"


def make_people(**agent: Any) -> Mapping[str, Any]:
    """Who is made up with the seed 7."""
    return simkit.fakes(seed=7, **agent)


# one person everywhere


def test_one_person_is_the_same_in_turns_replies_results_state_and_claims(file: Path) -> None:
    case = prepared(SHOP, file)

    outcome = simulate(case)

    state = case.scenario.given.state["customer"]
    text = str(case.scenario.turns[0].user)
    assert outcome.passed, outcome.judgement.findings
    assert type(state) is dict
    assert list(state) == list(BASICS)
    assert state["name"] in text
    assert state["email"] in text
    assert state["street_address"] in outcome.trace.events[-2].reply  # type: ignore[union-attr]


def test_a_claim_of_another_person_does_not_hold(file: Path) -> None:
    claimed = 'state: {customer: {email: "${customers[%s].'
    other = SHOP.replace(claimed % 0, claimed % 1)

    findings = simulate(prepared(other, file)).judgement.findings

    assert [finding.what for finding in findings] == ["state does not match"]


def test_another_seed_is_another_person_and_the_same_seed_the_same(file: Path) -> None:
    case = prepared(SHOP, file)

    assert run(case).digest() == run(prepared(SHOP, file)).digest()
    assert run(case).digest() != run(case, seed=4).digest()
    assert simulate(case, seed=4).passed


@pytest.mark.slow
def test_a_scenario_with_someone_made_up_goes_on_in_a_new_process(file: Path) -> None:
    again = (
        SHOP
        + """
  - user: It is ${customers[0].first_name} again
    restart: true
    replies: {clerk: "Hello ${customers[0].first_name}"}
    expect:
      context: {clerk: {includes: [{$contains: "${customers[0].email}"}]}}
"""
    )

    assert simulate(prepared(again, file)).judgement.findings == ()


def test_what_a_file_under_use_makes_up_is_there_and_the_nearest_counts(file: Path) -> None:
    (file.parent / "people.yaml").write_text(
        "given:\n  fakes: {customers: {count: 3, locale: ja_JP}, friend: fr_FR}\n"
        "tool_results: {find_orders: ['${friend.name}']}\n",
        encoding="utf-8",
    )
    used = (
        SHOP.replace("seed: 3", "seed: 3\nuse: [people.yaml]")
        .replace('    tool_results: {find_orders: {returns: "${orders}"}}\n', "")
        .replace("total: ${", 'friend: "${friend.name}"\n        total: ${')
    )
    case = prepared(used, file)

    (answer,) = case.shared[0].tool_results["find_orders"].answers
    assert answer.returns == made_in(used, "friend")["name"]
    assert case.scenario.given.state["customer"]["email"] == made_in(SHOP, "customers")[0]["email"]
    assert simulate(case, seed=9).passed
    assert case.with_seed(9).shared != case.shared


def made_in(text: str, name: str) -> Any:
    """Somebody whom a scenario of the seed 3 makes up."""
    data: dict[str, Any] = {"customers": {"count": 3, "locale": "de_DE"}, "friend": "fr_FR"}
    assert name in text or name == "friend"
    return simkit.fakes(seed=3, **data)[name]


@pytest.mark.slow
def test_a_cell_of_a_table_refers_to_people_and_people_to_a_cell(file: Path) -> None:
    rows = SHOP.replace("locale: de_DE", 'locale: "${column.locale}"').replace(
        "\nturns:", "\nexamples:\n  - {locale: de_DE, asks: \"${customers[1].name}\"}\n"
        "  - {locale: it_IT, asks: \"${customers[2].name}\"}\nturns:"
    ).replace("user: I am ${customers[0].name},", "user: I am ${column.asks}, no,")  # fmt: skip

    texts = [str(prepared(rows, file, row).scenario.turns[0].user) for row in (0, 1)]

    for text, locale, place in zip(texts, ("de_DE", "it_IT"), (1, 2), strict=True):
        people = simkit.fakes(seed=3, customers={"count": 3, "locale": locale})["customers"]
        assert f"I am {people[place]['name']}, no, {people[0]['email']}" in text


# what belongs together


@pytest.mark.parametrize(
    "locale",
    [
        *("", "de_DE", "ja_JP"),
        *(
            pytest.param(name, marks=pytest.mark.slow)
            for name in ("fr_FR", "ru_RU", "pl_PL", "it_IT", "es_CL")
        ),
    ],
)
def test_name_and_address_belong_together(locale: str) -> None:
    for person in make_people(people={"count": 20, "locale": locale} if locale else 20)["people"]:
        assert person["first_name"] in person["name"]
        name, last = person["name"], person["last_name"]
        assert name.startswith(f"{last} ") or name.endswith(f" {last}")
        assert re.fullmatch(r"[a-z0-9.-]+@example\.(com|net|org)", person["email"])
        assert all(
            str(person[part]) in person["address"]
            for part in ("street_address", "city", "postcode")
        )


def test_an_address_is_made_of_the_name_in_its_own_letters() -> None:
    given = {"name": "Jürgen Groß", "email_of": "${fake.email}"}
    (item,) = make_people(people={"count": 1, "locale": "de_DE", "values": given})["people"]

    assert item["email"].startswith("juergen.gross@")
    assert item["email_of"] == item["email"]


def test_all_of_fakers_words_are_there_in_the_persons_language() -> None:
    people = make_people(buyer="de_DE", orders={"count": 2})

    assert len(people["buyer"]["postcode"]) == 5
    assert people["buyer"]["iban"].startswith("DE")
    assert 1 <= people["orders"][1]["random_int(1, 6)"] <= 6


def test_somebody_with_values_is_as_a_whole_those_values() -> None:
    order = make_people(order={"values": {"number": "A-${fake.random_int(1, 9)}", "paid": True}})[
        "order"
    ]

    assert dict(order) == {"number": order["number"], "paid": True}
    assert order["name"]


# nobody twice, and nothing moves


@pytest.mark.slow
def test_nobody_has_the_name_address_or_unique_value_of_another() -> None:
    values = {"number": "${fake.unique.random_int(1, 60)}"}
    data = make_people(
        buyers={"count": 30, "values": values}, sellers={"count": 30, "values": values}
    )
    everybody = [*data["buyers"], *data["sellers"]]

    for word in ("name", "email", "number"):
        assert len({item[word] for item in everybody}) == 60, word


@pytest.mark.slow
def test_two_hundred_people_of_a_language_with_few_names_are_called_differently() -> None:
    people = make_people(people={"count": 200, "locale": "vi_VN"})["people"]

    assert len({person["name"] for person in people}) == 200


def test_two_of_one_given_name_have_two_addresses() -> None:
    item, other = make_people(twins={"count": 2, "values": {"name": "Ann Lee"}})["twins"]

    assert (item["name"], other["name"]) == ("Ann Lee", "Ann Lee")
    assert item["email"].split("@")[0] == "ann.lee"
    assert other["email"].split("@")[0] == "ann.lee2"


def test_more_people_values_and_words_elsewhere_move_nothing() -> None:
    alone = make_people(customers=2)["customers"]
    people = make_people(
        friend="de_DE", customers={"count": 5, "values": {"tier": "${fake.word}"}}, dog={}
    )

    assert people["customers"][4]["job"]
    for item, same in zip(alone, people["customers"], strict=False):
        assert [item[word] for word in (*BASICS, "job")] == [
            same[word] for word in (*BASICS, "job")
        ]


def test_one_of_a_list_and_one_alone_are_chance_of_their_name() -> None:
    people = make_people(customer={}, buyer={}, buyers=1)

    # Names would differ anyhow, since nobody is called as another is.
    words = {
        customer["iban"] for customer in (people["customer"], people["buyer"], people["buyers"][0])
    }
    assert len(words) == 3
    assert simkit.fakes(seed=8, customer={})["customer"]["name"] != people["customer"]["name"]


def test_unique_is_said_under_values_only() -> None:
    with pytest.raises(simkit.SimkitError, match="`unique` stands under `values`"):
        make_people(customer={})["customer"]["unique.city"]


# Python


def test_a_mistake_in_python_is_told_at_its_line() -> None:
    with pytest.raises(SourceError) as refused:
        simkit.fakes(customers={"locale": "de_DD"})

    assert re.fullmatch(
        r"tests/spec/scenario/test_fakes\.py:\d+:9: Faker has no locale `de_DD`\n"
        r"  at given\.fakes\.customers\.locale\n  did you mean `de_DE`\?",
        str(refused.value),
    )


def test_people_of_python_are_those_of_a_file_with_the_same_seed(file: Path) -> None:
    customer = prepared(SHOP, file).scenario.given.state["customer"]
    (same, *_) = simkit.fakes(seed=3, customers={"count": 3, "locale": "de_DE"})["customers"]

    assert dict(same) == customer
