Feature: A quick lookup changes who is speaking
  Chat decides by what is meant, and not by a word, whether a question is research. If it is, research
  answers in its place and stays; a delegation leaves everything as it was.

  Background:
    Given the pipeline "orchestrator"

  Scenario: Research knows what was talked about, answers, and stays
    When the user says "Who won the 2025 race?"
    And the chat agent hands off to the research agent as quick lookup asking "winner of the 2025 race" with conversation_context "The user watched it."
    And the research agent replies "Ada won."
    Then the context of the research agent includes "Conversation so far: The user watched it."
    And what the research agent received has shared_memory that has handoff_context that has conversation_context "The user watched it."
    And the state has primary_agent_selected "research_agent" and last_agent "research_agent"
    And the state's messages have 2 items
    And the reply is "Ada won."

  Scenario: After a delegation the source goes on
    Given the state has primary_agent_selected "reference_agent"
    When the user says "Compare my journal"
    And the reference agent hands off to the research agent asking "Published data on sleep" with:
      | reference_document | {"content": "Six hours.", "type": "journal", "filename": "j.md", "has_content": true} |
      | referenced_files   | {}                                                                                    |
      | analysis_context   | {"needs_calculations": false, "calculation_results": null, "complexity": "simple"}    |
    And the research agent replies "Adults sleep 7 hours."
    And the reference agent replies "You sleep less."
    Then the state has primary_agent_selected "reference_agent"

  Scenario: A delegation whose delegate fails has been made all the same
    Given the state has primary_agent_selected "reference_agent"
    And the model of the research agent fails with server_error
    When the user says "Compare my journal"
    And the reference agent hands off to the research agent asking "Published data on sleep" with:
      | reference_document | {"content": "Six hours.", "type": "journal", "filename": "j.md", "has_content": true} |
      | referenced_files   | {}                                                                                    |
      | analysis_context   | {"needs_calculations": false, "calculation_results": null, "complexity": "simple"}    |
    Then the turn ends with the error server_error
    And the reference agent was asked once
    And the state's handoffs received is 1

  Scenario: It is the meaning that decides, and not the word research
    When the user says "Your research on the last race was great"
    And the chat agent replies "I am glad."
    Then the chat agent was asked once
    And nobody handed off

  Scenario: Chat is told what to answer itself
    When the user says "Thanks"
    And the chat agent replies "You are welcome."
    Then the instructions of the chat agent contain "Answer comments, thanks and other follow-ups yourself."
    And these agents ran in order: chat agent
