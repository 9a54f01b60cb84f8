"""The commands: their arguments and help. The code of a command is imported when it is called.

So `simkit --help` and `simkit COMMAND --help` load neither the code that runs scenarios nor
pytest-bdd. Each module of this package has the commands of one purpose and adds them to the group
`cli`. A module that is not there has no commands: `search` and `live` are optional.
"""

from importlib import import_module
from pkgutil import iter_modules

from simkit.cli.commands.options import TRACEBACK_VARIABLE as TRACEBACK_VARIABLE
from simkit.cli.commands.options import cli as cli

for _module in iter_modules(__path__):
    import_module(f"{__name__}.{_module.name}")
