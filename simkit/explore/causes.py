"""Causes of findings: what makes two conversations fail in the same way."""

from __future__ import annotations

import re
from typing import Final, NamedTuple

from simkit.checks.findings import CLAIM, Finding
from simkit.explore.network import NETWORK, network_detail
from simkit.trace.events import ErrorFacts

CLAIM_KEYS: Final = ("always", "never", "finally")
"""The keys of a simulation that hold its claims."""
_ERROR: Final = re.compile(r"ended with error (\w+)")
_RAISED: Final = re.compile(r"raised (\w+)")
_PREDICATE: Final = re.compile(r"`[\w.]+:(\w+)` ")
_MISTAKES: Final = frozenset(
    (
        "AttributeError", "IndexError", "KeyError", "NameError", "NotImplementedError",
        "RecursionError", "TypeError", "UnboundLocalError", "UnicodeDecodeError", "ValueError",
        "ZeroDivisionError",
    )
)  # fmt: skip
"""Errors of Python itself that no client raises for a provider's failure."""
_GUARDRAIL: Final = re.compile(r"(Input|Output)GuardrailTripwireTriggered$")
"""Errors with which a guardrail ends a turn on purpose: the application catches them."""


class Cause(NamedTuple):
    """The kind of a finding, without what differs from run to run: one cause is one discovery."""

    id: str
    """The lint, or ``claim`` for a claim or an error that ended a turn."""
    agent: str
    detail: str
    """The claim's place, such as `always.state.balance` or `never.0`, or the type of the error;
    empty for lints, whose id says what is wrong. Of what needs the network, its place."""

    @property
    def needs_network(self) -> bool:
        """Return whether a part could not be explored, since it needs the network."""
        return self.detail.startswith(NETWORK)


def cause_of(finding: Finding) -> Cause:
    """Return the cause of a finding."""
    if detail := network_detail(finding):
        return Cause(finding.id, finding.agent, detail)
    if finding.id != CLAIM:
        return Cause(finding.id, finding.agent, "")
    error = _ERROR.search(finding.what)
    if error:
        return Cause(CLAIM, finding.agent, _kind_of(error[1], finding.what))
    inner = finding.path[2:] if finding.path[:1] == ("turns",) else finding.path
    head = "always" if finding.path[:1] == ("turns",) else "finally"
    names = [str(part) for part in inner[1:3] if isinstance(part, str)]
    predicate = _PREDICATE.match(finding.what)
    if names == ["satisfies"] and predicate is not None:
        names.append(predicate[1])
    return Cause(CLAIM, finding.agent, ".".join([head, *names]))


def is_of_provider(error: ErrorFacts) -> bool:
    """Return whether an error after a fault may be the client's word for it.

    A client raises errors of its own for a provider's failure. One of Python's own shows that the
    code did not expect the failure.
    """
    return _kind_of(error.type, error.message) not in _MISTAKES


def is_guardrail(error: ErrorFacts) -> bool:
    """Return whether a guardrail has ended a turn on purpose."""
    return _GUARDRAIL.search(_kind_of(error.type, error.message)) is not None


def is_error(finding: Finding) -> bool:
    """Return whether a finding says that an error ended a turn."""
    return _ERROR.search(finding.what) is not None


def _kind_of(error_type: str, message: str) -> str:
    """Return the name of the exception, also of one that a user's function raised."""
    raised = _RAISED.search(message)
    return raised[1] if raised else error_type


def label_of(cause: Cause) -> str:
    """Return the word by which a cause is reported: a lint, `error`, or the claim's key."""
    if cause.id != CLAIM:
        return cause.id
    head = cause.detail.partition(".")[0]
    return head if head in CLAIM_KEYS else "error"
