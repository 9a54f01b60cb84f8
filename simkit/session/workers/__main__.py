"""The entry point of a new interpreter that works, and of an application process."""

import sys

from simkit.session.workers.worker import serve_on_standard_streams

if __name__ == "__main__":
    if len(sys.argv) > 1:
        from simkit.session.workers.application import serve_copies

        number, *modules = sys.argv[1:]
        del sys.argv[1:]
        serve_copies(int(number), modules)
        serve_on_standard_streams()
    else:
        from simkit.session.workers.worker import receive_beginning

        receive_beginning()
        serve_on_standard_streams()
