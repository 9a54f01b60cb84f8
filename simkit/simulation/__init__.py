"""A conversation led from Python: say, reply, inspect, and plain asserts.

::

    def test_the_analyst_sees_the_run(sim):
        coach = sim("fitness_coach.pipeline.yaml")
        run = coach.say("How was my run?", replies={"coach": "12 % faster."})
        assert run.reply == contains("faster")

``say`` adds a turn, checked at once. The first look at what came of it runs the whole conversation
anew, from its first turn, as a scenario file would: so nothing that a process keeps can leak from
one turn into the next unseen, and what was said before is held to happen again, event by event.

From the ground up: ``places`` (where a test says what), ``pipelines`` (what it names),
``outcome`` (what came of a turn), ``conversation``, ``fixture`` (the door in pytest).
"""

from simkit.simulation.conversation import Simulation
from simkit.simulation.outcome import SeenContext, TurnOutcome

__all__ = ["SeenContext", "Simulation", "TurnOutcome"]
