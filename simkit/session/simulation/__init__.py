"""Simulations: a conversation led from Python, with plain asserts.

::

    def test_the_analyst_sees_the_run(sim):
        coach = sim("fitness_coach.pipeline.yaml")
        run = coach.say("How was my run?", replies={"coach": "12 % faster."})
        assert run.reply == contains("faster")

``say`` adds a turn, whose script is checked at once. The first access to its results takes the new
turns, each once. At the end, if user code ran, the whole conversation is run again, and must give
the same events: so no state of the process can leak from one turn into the next unnoticed.

From the bottom up: ``asking`` (lines and questions of a test), ``outcome`` (the result of a turn),
``conversation`` (with the named pipeline and made-up people), ``fixture`` (for pytest).
"""

from simkit.session.simulation.conversation import Simulation, fakes
from simkit.session.simulation.outcome import SeenContext, TurnOutcome
