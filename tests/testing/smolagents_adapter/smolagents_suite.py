from simkit.testing import AdapterConformance


class TestSmolagents(AdapterConformance):
    adapter = "smolagents"
    applications = "smolagents_applications"
    output_tool = ("final_answer", "answer")
    not_supported = {
        "parallel": "only a model starts agents side by side, by several calls in one reply",
        "handoff": "an agent passes control to no other: a managed agent reports back",
        "filter": "there are no handoffs, and no history filters",
        "state": "agents share no state",
        "interrupt": "agents do not ask the user",
        "cancel": "an agent is interrupted between two steps only",
    }
