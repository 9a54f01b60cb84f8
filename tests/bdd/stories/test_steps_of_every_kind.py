"""Stories with steps of every kind hold, bound as users bind their own."""

from pytest_bdd import scenarios

from simkit.bdd import *  # noqa: F403 - steps have no Python names, so the star alone brings them

scenarios(".")
