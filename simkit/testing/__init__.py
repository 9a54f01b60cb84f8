"""For authors of adapters: a suite that tests the rules of ``docs/how-to/adapters.md``.

::

    from simkit.testing import AdapterConformance

    class TestAcme(AdapterConformance):
        adapter = "acme"
        applications = "acme_applications"

From the bottom up: ``rules`` (required observations, the applications that show them, texts of
failures, the same adapter reporting nothing), ``conformance`` (the suite, for pytest).
"""

from simkit.testing.conformance import AdapterConformance

__all__ = ["AdapterConformance"]
