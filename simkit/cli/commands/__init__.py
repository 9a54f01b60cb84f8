"""The commands: their arguments and help. The code of a command is imported when it is called.

So `simkit --help` and `simkit COMMAND --help` load neither the code that runs scenarios nor
pytest-bdd. Each module has the commands of one purpose, and adds them to the group `cli`.
"""

from simkit.cli.commands import files as files
from simkit.cli.commands import recordings as recordings
from simkit.cli.commands import reference as reference
from simkit.cli.commands import runs as runs
from simkit.cli.commands import search as search
from simkit.cli.commands import traces as traces
from simkit.cli.commands.group import TRACEBACK_VARIABLE as TRACEBACK_VARIABLE
from simkit.cli.commands.group import cli as cli
