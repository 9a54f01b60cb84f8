"""A conversation led from Python: say, reply, inspect, and plain asserts.

::

    def test_the_analyst_sees_the_run(sim):
        coach = sim("fitness_coach.pipeline.yaml")
        run = coach.say("How was my run?", replies={"coach": "12 % faster."})
        assert run.reply == contains("faster")

``say`` adds a turn, checked at once. The first look at what came of it takes the turns that were
not taken yet, each once. When the whole is judged it is run once more if user code ran, and held to
happen again, event by event: so nothing that a process keeps can leak from one turn into the next
unseen.

From the ground up: ``places`` (where a test says what), ``pipelines`` (what it names),
``outcome`` (what came of a turn), ``conversation``, ``fixture`` (the door in pytest), ``made_up``.
"""

from simkit.session.simulation.conversation import Simulation
from simkit.session.simulation.made_up import fakes
from simkit.session.simulation.outcome import SeenContext, TurnOutcome

__all__ = ["SeenContext", "Simulation", "TurnOutcome", "fakes"]
