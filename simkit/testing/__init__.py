"""For authors of adapters: a suite that tests the rules of ``docs/how-to/adapters.md``.

::

    from simkit.testing import AdapterConformance

    class TestAcme(AdapterConformance):
        adapter = "acme"
        applications = "acme_applications"

From the ground up: ``rules`` (what must be seen, and the applications that show it), ``silence``
(the same adapter, telling nothing), ``leftovers`` (what it has not taken away), ``telling`` (which
rule was broken, and by what), ``conformance`` (the suite, for pytest).
"""

from simkit.testing.conformance import AdapterConformance

__all__ = ["AdapterConformance"]
