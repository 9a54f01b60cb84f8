"""A manager with two managed agents, of which one has a tool, in smolagents' own words."""

from smolagents import CodeAgent, LogLevel, OpenAIServerModel, ToolCallingAgent, tool

model = OpenAIServerModel("gpt-5-mini", api_key="none")


@tool
def measure(city: str) -> dict:
    """Measures the weather.

    Args:
        city: The city.
    """
    return {"city": city, "degrees": 21}


def agent(kind, name, tools=(), **options):
    return kind(
        [*tools], model, name=name, description=f"Knows the {name}.", verbosity_level=LogLevel.OFF,
        **options,
    )  # fmt: skip


weather = agent(ToolCallingAgent, "weather", [measure])
traffic = agent(CodeAgent, "traffic", [measure])
desk = agent(ToolCallingAgent, "desk", managed_agents=[weather, traffic])
nameless = ToolCallingAgent([], model, verbosity_level=LogLevel.OFF)
