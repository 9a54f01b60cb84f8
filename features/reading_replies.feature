Feature: What an agent meant
  Models answer with an action, with an action wrapped in chatter, or with a thought. Some agents are
  read generously, some with care, some strictly, and some are never read as anything but words.

  Background:
    Given the pipeline "action_parser"

  Scenario: An action is an action
    When the user sends goal "act"
    And the acting agent replies "{\"action\": \"call_tool\", \"tool\": \"fetch_data\"}"
    And the executing agent replies "Done."
    Then the output of the acting agent has action "call_tool"
    And the event ReplyParsed happened with agent "acting_agent" and how "json"

  Scenario: An action in chatter is found, and the chatter is not passed on
    When the user sends goal "act"
    And the acting agent replies:
      """
      Here is what I will do:
      {"action": "call_tool", "tool": "fetch_data"}
      This will fetch the data.
      """
    And the executing agent replies "Done."
    Then the output of the acting agent has exactly action "call_tool" and tool "fetch_data"
    And the reply of the acting agent starts with "Here is what I will do"
    And the context of the executing agent excludes "This will fetch the data"
    And the event ReplyParsed happened with agent "acting_agent" and how "json_in_text"

  Scenario: A thought is kept as a thought
    When the user sends goal "act"
    And the acting agent replies "Let me think about this."
    And the executing agent replies "Done."
    Then the output of the acting agent is "Let me think about this."
    And the state's agent results have acting_agent_output "Let me think about this."
    And the event ReplyParsed happened with agent "acting_agent" and how "text"

  Scenario: Who is read with care is taken by the word
    When the user sends goal "be_careful"
    And the careful agent replies "I will fetch: {\"action\": \"call_tool\"}"
    And the executing agent replies "Done."
    Then the output of the careful agent is "I will fetch: {\"action\": \"call_tool\"}"
    And the event ReplyParsed did not happen

  Scenario: Who must answer with an action and does not, ends the turn
    When the user sends goal "be_strict"
    And the strict agent replies "Let me think about this."
    Then the turn ends with the error OutputInvalid that says "must answer with JSON"
    And the executing agent was not asked

  Scenario: Who writes texts is never read as an action
    When the user sends goal "write"
    And the writing agent replies "{\"action\": \"call_tool\"}"
    And the executing agent replies "Done."
    Then the output of the writing agent is a string
