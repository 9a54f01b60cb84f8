"""What a provider keeps is part of what an agent is sent."""

from __future__ import annotations

from tests.adapters.running import run_app


def test_a_conversation_that_the_provider_keeps_grows_with_every_reply() -> None:
    ran = run_app(
        "matrix_openai_responses:continue_conversation",
        """
        agents: {clerk: {model: gpt-5-mini}}
        turns:
          - {user: Is it warm?, replies: {clerk: Quite.}}
          - user: And tomorrow?
            replies: {clerk: Too.}
            expect:
              context:
                clerk: {messages: [user: Is it warm?, assistant: Quite., user: And tomorrow?]}
        """,
    )

    assert ran.judgement.findings == ()
