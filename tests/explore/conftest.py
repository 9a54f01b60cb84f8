"""The command line, called from outside, as the tests of commands call it."""

from tests.cli.conftest import process as process
from tests.cli.conftest import project as project
from tests.cli.conftest import simkit as simkit
