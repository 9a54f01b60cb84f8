Feature: A document travels with the question
  The reference agent delegates research and gets the answer back. What research must know travels
  as data beside the question, complete or not at all; nothing else of the session does.

  Background:
    Given the pipeline "orchestrator"
    And the state has primary_agent_selected "reference_agent" and user_chat_model "gpt-x"
    And the state has reference_content "Journal of 2025" and filename "journal.md"

  Rule: The question stays a question, and the document travels beside it

    Scenario: Research is sent the document, and reports back
      When the user says "How does my journal compare with published data?"
      And the reference agent hands off to the research agent as research delegation asking "Published data on sleep" with:
        | source_agent       | reference_agent     |                 |
        | handoff_type       | research_delegation |                 |
        | reference_document | content             | Journal of 2025 |
        | reference_document | type                | journal         |
        | reference_document | filename            | journal.md      |
        | reference_document | has_content         | true            |
        | referenced_files   | {}                  |                 |
        | analysis_context   | needs_calculations  | false           |
        | analysis_context   | calculation_results | null            |
        | analysis_context   | complexity          | simple          |
      And the research agent replies "Adults sleep 7 hours."
      And the reference agent replies "Compared with published data, you sleep less."
      Then these agents ran in order: reference agent and research agent
      And the reference agent delegated to the research agent
      And the reference agent handed off to the research agent asking "Published data on sleep" with:
        | reference_document | filename    | journal.md            |
        | reference_document | content     | starts with "Journal" |
        | analysis_context   | has 3 items |                       |
      And the context of the research agent includes a user message that contains "Delegated by: reference_agent" and "journal.md"
      And the second context of the reference agent includes "Adults sleep 7 hours."
      And the reply contains "you sleep less"

    Scenario: Only the user's preferences come along
      When the user says "How does my journal compare with published data?"
      And the reference agent hands off to the research agent as research delegation asking "Published data on sleep" with:
        | source_agent       | reference_agent     |                 |
        | handoff_type       | research_delegation |                 |
        | reference_document | content             | Journal of 2025 |
        | reference_document | type                | journal         |
        | reference_document | filename            | journal.md      |
        | reference_document | has_content         | true            |
        | referenced_files   | {}                  |                 |
        | analysis_context   | needs_calculations  | false           |
        | analysis_context   | calculation_results | null            |
        | analysis_context   | complexity          | simple          |
      And the research agent replies "Adults sleep 7 hours."
      And the reference agent replies "You sleep less."
      Then the research agent received the user chat model "gpt-x"
      And the research agent received no reference content
      And the research agent received no filename
      And what the research agent received has shared_memory that has handoff_context that has source_agent "reference_agent"

      When the user says "Thank you"
      And the reference agent replies "You are welcome."
      Then the reference agent received the user chat model "gpt-x"

  Rule: Half a document is not delivered

    Scenario: The sender is told what is missing
      When the user says "Compare my journal"
      And the reference agent hands off to the research agent as research delegation asking "Compare" with source_agent "reference_agent" and handoff_type "research_delegation"
      And the reference agent replies "I could not start the research."
      Then these agents ran in order: reference agent
      And the handoff from the reference agent to the research agent was rejected because its reason contains "reference_document"
      And the second context of the reference agent includes "reference_document"
      And the research agent did not run
      And the reply is "I could not start the research."
