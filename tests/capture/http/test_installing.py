from __future__ import annotations

import sys
from typing import Any

import pytest

from simkit.capture.http.installing import Installation, Keeper, Replacement, Row, enter_all


class Owner:
    def greet(self) -> str:
        return "hello"


class Heir(Owner):
    """Inherits what is replaced."""


def louder(before: Replacement) -> Replacement:
    return lambda self: before(self).upper()


def asking(before: Replacement) -> Replacement:
    return lambda self: before(self) + "?"


def new_owner() -> Any:
    """A class of its own, with what the tests replace."""

    class Mine:
        def greet(self) -> str:
            return "hello"

    return Mine


def test_first_replaces_and_last_puts_back() -> None:
    before = dict(vars(Owner)), dict(vars(Heir))
    installation = Installation(lambda: [(Owner, "greet", louder), (Heir, "greet", louder)])
    results = []
    with installation:
        results.append((Owner().greet(), Heir().greet()))
        with installation:
            results.append((Owner().greet(), Heir().greet()))
        results.append((Owner().greet(), Heir().greet()))

    assert results == [("HELLO", "HELLO")] * 3
    assert (dict(vars(Owner)), dict(vars(Heir))) == before


def test_attribute_is_replaced_once() -> None:
    def again(before: Replacement) -> Replacement:
        return lambda self: before(self) + "!"

    installation = Installation(lambda: [(Owner, "greet", again)])
    with installation:
        installation.replace([(Owner, "greet", again)])

        assert Owner().greet() == "hello!"
        assert installation.replaced == [(Owner, "greet")]


def test_nothing_is_replaced_outside() -> None:
    installation = Installation()
    installation.replace([(Owner, "greet", louder)])

    assert Owner().greet() == "hello"


def test_what_somebody_else_replaced_meanwhile_is_left_to_them() -> None:
    Mine = new_owner()

    def theirs(self: Any) -> str:
        return "theirs"

    with Installation(lambda: [(Mine, "greet", louder)]):
        Mine.greet = theirs

    assert Mine().greet() == "theirs"


def test_what_cannot_be_replaced_leaves_nothing_replaced() -> None:
    installation = Installation(lambda: [(Owner, "greet", louder), (Owner, "absent", louder)])

    with pytest.raises(AttributeError), installation:
        raise AssertionError("it was entered")

    assert (installation.replaced, Owner().greet()) == ([], "hello")


def test_installations_that_leave_in_the_order_in_which_they_came_put_the_original_back() -> None:
    class Mine(Owner):
        """Has what is replaced by its own name."""

        def greet(self) -> str:
            return "hello"

    original = vars(Mine)["greet"]
    installation = Installation(lambda: [(Mine, "greet", louder)])
    other = Installation(lambda: [(Mine, "greet", asking)])

    installation.__enter__()
    other.__enter__()
    installation.__exit__()
    still = Mine().greet()
    other.__exit__()

    assert still == "HELLO?"
    assert vars(Mine)["greet"] is original


def test_what_somebody_else_covers_is_not_replaced_a_second_time_and_is_put_back_later() -> None:
    Mine = new_owner()
    original = vars(Mine)["greet"]
    installation = Installation(lambda: [(Mine, "greet", asking)])
    with installation:
        ours = vars(Mine)["greet"]
        Mine.greet = louder(ours)
    covered = Mine().greet()
    with installation:
        inside = Mine().greet()
        Mine.greet = ours
    with installation:
        again = Mine().greet()

    assert (covered, inside, again) == ("HELLO?", "HELLO?", "hello?")
    assert vars(Mine)["greet"] is original


def test_what_somebody_else_has_replaced_anew_is_replaced_again() -> None:
    Mine = new_owner()
    original = vars(Mine)["greet"]
    installation = Installation(lambda: [(Mine, "greet", asking)])
    with installation:
        Mine.greet = louder(vars(Mine)["greet"])
    Mine.greet = original
    with installation:
        again = Mine().greet()

    assert again == "hello?"
    assert vars(Mine)["greet"] is original


def test_keeper_keeps_what_is_replaced_until_it_is_closed() -> None:
    originals = []

    def counted(before: Replacement) -> Replacement:
        originals.append(before)
        return louder(before)

    keeper, installation = Keeper(), Installation(lambda: [(Owner, "greet", counted)])
    results = []
    for _ in range(3):
        with keeper.keeping(), installation:
            results.append(Owner().greet())
        results.append(Owner().greet())
    keeper.close()

    assert (results, Owner().greet(), len(originals)) == (["HELLO"] * 6, "hello", 1)


def test_keepers_keep_until_the_last_is_closed() -> None:
    first, second = Keeper(), Keeper()
    installation = Installation(lambda: [(Owner, "greet", louder)])
    for keeper in (first, second, first):
        with keeper.keeping(), installation:
            pass

    results = [Owner().greet()]
    for keeper in (first, second):
        keeper.close()
        results.append(Owner().greet())

    assert results == ["HELLO", "HELLO", "hello"]


def test_many_runs_inside_a_keeper_replace_once_whatever_keeper_each_has() -> None:
    originals: list[Any] = []

    def counted(before: Replacement) -> Replacement:
        originals.append(before)
        return louder(before)

    installation = Installation(lambda: [(Owner, "greet", counted)])
    outer = Keeper()
    for inner in [Keeper() for _ in range(3)]:
        with outer.keeping(), inner.keeping(), installation:
            assert Owner().greet() == "HELLO"
        inner.close()
    outer.close()

    assert (Owner().greet(), len(originals)) == ("hello", 1)


def test_what_is_installed_inside_is_no_keepers() -> None:
    Mine = new_owner()
    outer = Installation(lambda: [(Owner, "greet", louder)])
    keeper = Keeper()
    with keeper.keeping():
        outer.__enter__()
    with Installation(lambda: [(Mine, "greet", louder)]):
        outer.__exit__()

    assert (Owner().greet(), Mine().greet()) == ("HELLO", "hello")
    keeper.close()


def test_what_cannot_be_entered_leaves_what_was_entered_before_it() -> None:
    installation = Installation(lambda: [(Owner, "greet", louder)])
    broken = Installation(lambda: [(Owner, "is_not_there", louder)])

    with pytest.raises(AttributeError):
        enter_all((installation, broken))

    assert Owner().greet() == "hello"


def test_next_user_replaces_what_was_imported_since(monkeypatch: pytest.MonkeyPatch) -> None:
    Mine = new_owner()
    rows: list[Row] = [(Owner, "greet", louder)]
    keeper, installation = Keeper(), Installation(lambda: rows)
    with keeper.keeping(), installation:
        pass
    rows.append((Mine, "greet", louder))
    monkeypatch.setitem(sys.modules, "just_imported", sys)
    with keeper.keeping(), installation:
        result = Mine().greet()
    keeper.close()

    assert (result, Mine().greet()) == ("HELLO", "hello")
