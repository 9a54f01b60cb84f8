Feature: Nobody waits for ever
  Whoever passes work on knows how long it may take. What takes longer is given up, and leaves no trace
  in the conversation.

  Background:
    Given the pipeline "timeouts"

  Scenario: A delegate that takes a minute is given up after five seconds
    When the user says "Compare my journal"
    And the reference agent hands off to the research agent asking "Published data on sleep" with:
      | reference_document | content | Six hours a night. |
    And the research agent replies "Adults sleep 7 hours." after 60000 ms
    And the reference agent replies "The research took too long."
    Then the second context of the reference agent includes "timed out after 5000 ms"
    And the state's last agent is "reference_agent"
    And the state has 2 messages
    And the reply is "The research took too long."

  Scenario: A delegate that takes four seconds is waited for
    When the user says "Compare my journal"
    And the reference agent hands off to the research agent asking "Published data on sleep" with:
      | reference_document | content | Six hours a night. |
    And the research agent replies "Adults sleep 7 hours." after 4000 ms
    And the reference agent replies "You sleep less."
    Then the second context of the reference agent includes "Adults sleep 7 hours."

  Scenario: Whoever answers in another's place must hurry, or the turn is over
    Given the state has primary_agent_selected "chat_agent"
    When the user says "Who won the 2025 race?"
    And the chat agent hands off to the research agent asking "winner of the 2025 race" with conversation_context "Nothing."
    And the research agent replies "Ada won." after 60000 ms
    Then the turn ends with the error HandoffTimeout
    And there is no reply
