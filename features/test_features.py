"""Binds the features: without this module pytest-bdd collects none of them."""

from pytest_bdd import scenarios

from simkit.bdd import *  # noqa: F403 - steps have no Python names, so the star alone brings them

scenarios(".")
