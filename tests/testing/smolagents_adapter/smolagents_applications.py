"""What the conformance suite wants of smolagents, as its users would write it."""

from smolagents import LogLevel, OpenAIServerModel, ToolCallingAgent, tool

model = OpenAIServerModel("gpt-5-mini", api_key="none")


def agent(name, tools=(), **options):
    instructions = f"You are {name}."
    return ToolCallingAgent(
        [*tools],
        model,
        name=name,
        instructions=instructions,
        verbosity_level=LogLevel.OFF,
        **options,
    )


@tool
def look_up(word: str) -> str:
    """Looks a word up.

    Args:
        word: The word.
    """
    return f"{word} is known."


@tool
def ask_helper(input: str) -> str:
    """Asks the helper.

    Args:
        input: The question.
    """
    return agent("helper").run(input)


def lose(step, agent):
    raise LookupError("lost")


solo = retry = agent("writer")
sessions = agent("clerk")
tools = output = agent("clerk", [look_up])
nested = agent("boss", [ask_helper])
broken = agent("clerk", step_callbacks=[lose])


def chain(text):
    return agent("second").run(agent("first").run(text))


def stream(text):
    *_, last = agent("writer", stream_outputs=True).run(text, stream=True)
    return last.output
