Feature: A question is passed on
  The chat agent knows when it does not know. It passes the question on, with what the next agent
  needs to answer it, and steps back: the user hears one voice only.

  Background:
    Given the pipeline "orchestrator"

  Scenario: Research answers in the place of chat
    When the user says "Who won the 2025 race?"
    And the chat agent hands off to the research agent as quick lookup asking "winner of the 2025 race" with conversation_context "The user follows athletics."
    And the research agent replies "Ada won."
    Then these agents ran in order: chat agent and research agent
    And the chat agent handed off to the research agent with conversation_context that contains "athletics"
    And the research agent replaced the chat agent
    And the context of the research agent includes a user message that contains "winner of the 2025 race"
    And the reply is "Ada won."
    And the chat agent was asked once

  Scenario: Whoever answered goes on with the conversation
    When the user says "Who won the 2025 race?"
    And the chat agent hands off to the research agent as quick lookup asking "winner of the 2025 race" with conversation_context "The user follows athletics."
    And the research agent replies "Ada won."
    And the user says "By how much?"
    And the research agent replies "Two seconds."
    Then these agents ran in order: research agent
    And the history of the research agent is:
      | user      | Who won the 2025 race? |
      | assistant | Ada won.               |
    And the research agent received the last agent "research_agent"
    And what the research agent received has shared_memory that is empty
    And nobody handed off
    And the state's primary agent selected is "research_agent"

  Scenario Outline: Small talk stays where it is
    When the user says "<said>"
    And the chat agent replies "<answer>"
    Then these agents ran in order: chat agent
    And the research agent was not asked
    And nobody handed off
    And the reply is "<answer>"

    Examples:
      | said                  | answer           |
      | Thanks, that was nice | You are welcome. |
      | Good morning          | Good morning!    |
