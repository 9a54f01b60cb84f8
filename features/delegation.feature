Feature: A delegation carries its data
  Whoever delegates waits for the answer. The question says what is wanted, the data beside it says
  on what grounds, and the delegate knows who asks.

  Background:
    Given the pipeline "orchestrator"
    And the state has primary_agent_selected "reference_agent", user_id "u7" and conversation_id "c-42"

  Rule: What travels is what was sent

    Scenario: The delegate reads the question, the note, and what was said before
      When the user says "I slept badly"
      And the reference agent replies "That is a pity."
      And the user says "Compare my journal with published data"
      And the reference agent hands off to the research agent asking "Published data on sleep" with:
        | reference_document | content             | Six hours a night. |
        | reference_document | type                | journal            |
        | reference_document | filename            | journal.md         |
        | reference_document | has_content         | true               |
        | referenced_files   | {}                  |                    |
        | analysis_context   | needs_calculations  | false              |
        | analysis_context   | calculation_results | null               |
        | analysis_context   | complexity          | simple             |
      And the research agent replies "Adults sleep 7 hours."
      And the reference agent replies "You sleep less."
      Then the history of the research agent contains "I slept badly" and "Compare my journal"
      And the context of the research agent includes a user message that starts with "Published data on sleep"
      And the context of the research agent includes a user message that contains "Document: Six hours a night."
      And the context of the research agent includes a user message that ends with "reference data from the user's document."
      And the research agent received the user id "u7"
      And the research agent received the conversation id "c-42"
      And the state's shared memory has handoff_context that has source_agent "reference_agent" and handoff_type "research_delegation"
      And the state has primary_agent_selected "reference_agent" and last_agent "reference_agent"

    Scenario: A delegation may say why, and what it expects
      When the user says "Compare my journal"
      And the reference agent hands off to the research agent asking "Published data on sleep" with:
        | reference_document | content             | Six hours a night. |
        | reference_document | type                | journal            |
        | reference_document | filename            | journal.md         |
        | reference_document | has_content         | true               |
        | referenced_files   | {}                  |                    |
        | analysis_context   | needs_calculations  | false              |
        | analysis_context   | calculation_results | null               |
        | analysis_context   | complexity          | simple             |
        | context_data       | years               | [2025]             |
        | handoff_reason     | It has no figures.  |                    |
        | expected_output    | One number.         |                    |
      And the research agent replies "Adults sleep 7 hours."
      And the reference agent replies "You sleep less."
      Then the reference agent handed off to the research agent with:
        | context_data    | years              | [2025] |
        | handoff_reason  | It has no figures. |        |
        | expected_output | One number.        |        |

    Scenario: Every delegation is noted where it is sent and where it arrives
      When the user says "Compare my journal"
      And the reference agent hands off to the research agent asking "Published data on sleep" with:
        | reference_document | content             | Six hours a night. |
        | reference_document | type                | journal            |
        | reference_document | filename            | journal.md         |
        | reference_document | has_content         | true               |
        | referenced_files   | {}                  |                    |
        | analysis_context   | needs_calculations  | false              |
        | analysis_context   | calculation_results | null               |
        | analysis_context   | complexity          | simple             |
      And the research agent replies "Adults sleep 7 hours."
      And the reference agent replies "You sleep less."
      Then these events happened in order, among others:
        | kind             | agent           | to_agent       |
        | HandoffRequested | reference_agent | research_agent |
        | HandoffMade      |                 | research_agent |
        | AgentStarted     | research_agent  |                |
        | AgentFinished    | research_agent  |                |
        | AgentFinished    | reference_agent |                |

    Scenario: What arrives is counted over the whole conversation
      When the user says "Compare my journal"
      And the reference agent hands off to the research agent asking "Published data on sleep" with:
        | reference_document | content             | Six hours a night. |
        | reference_document | type                | journal            |
        | reference_document | filename            | journal.md         |
        | reference_document | has_content         | true               |
        | referenced_files   | {}                  |                    |
        | analysis_context   | needs_calculations  | false              |
        | analysis_context   | calculation_results | null               |
        | analysis_context   | complexity          | simple             |
      And the research agent replies "Adults sleep 7 hours."
      And the reference agent replies "You sleep less."
      And the user says "And again?"
      And the reference agent hands off to the research agent asking "Published data on naps" with:
        | reference_document | content             | Six hours a night. |
        | reference_document | type                | journal            |
        | reference_document | filename            | journal.md         |
        | reference_document | has_content         | true               |
        | referenced_files   | {}                  |                    |
        | analysis_context   | needs_calculations  | false              |
        | analysis_context   | calculation_results | null               |
        | analysis_context   | complexity          | simple             |
      And the research agent replies "Adults nap 20 minutes."
      And the reference agent replies "You nap more."
      Then the state's handoffs received is 2

  Rule: A long document travels whole, and is shown in part

    Scenario: The delegate is shown the beginning
      When the user says "Compare my journal"
      And the reference agent hands off to the research agent asking "Published data on sleep" with:
        | reference_document | content             | On Monday I slept six hours and woke twice because of the rain. On Tuesday I slept seven hours after a long walk along the river. On Wednesday I slept five hours, since a neighbour moved furniture until midnight. |
        | reference_document | type                | journal |
        | reference_document | filename            | journal.md |
        | reference_document | has_content         | true |
        | referenced_files   | {}                  | |
        | analysis_context   | needs_calculations  | false |
        | analysis_context   | calculation_results | null |
        | analysis_context   | complexity          | simple |
      And the research agent replies "Adults sleep 7 hours."
      And the reference agent replies "You sleep less."
      Then the reference agent handed off to the research agent with:
        | reference_document | content | ends with "until midnight." |
      And the context of the research agent includes "after a long walk along the river"
      And the context of the research agent excludes "until midnight"

    Scenario: A question that carries the document is refused
      When the user says "Compare my journal"
      And the reference agent hands off to the research agent asking "On Monday I slept six hours and woke twice because of the rain. On Tuesday I slept seven hours after a long walk along the river. On Wednesday I slept five hours, since a neighbour moved furniture until midnight. On Thursday I slept eight hours and remembered a dream about trains. On Friday I slept six hours after a late dinner with friends. On Saturday I slept nine hours with the window open. On Sunday I slept seven hours and felt rested for the first time that week. In spring the nights grew shorter and so did my sleep." with:
        | reference_document | content             | Six hours a night. |
        | reference_document | type                | journal            |
        | reference_document | filename            | journal.md         |
        | reference_document | has_content         | true               |
        | referenced_files   | {}                  |                    |
        | analysis_context   | needs_calculations  | false              |
        | analysis_context   | calculation_results | null               |
        | analysis_context   | complexity          | simple             |
      And the reference agent replies "I could not ask."
      Then the handoff from the reference agent to the research agent was rejected because its reason contains "at most 500 are allowed"
      And the second context of the reference agent includes "at most 500 are allowed"

  Rule: No document, no note

    Scenario: Without a handoff nothing is made up
      Given the state has primary_agent_selected "research_agent"
      When the user says "How long do adults sleep?"
      And the research agent replies "7 hours."
      Then the context of the research agent is exactly:
        | system | Research.                 |
        | user   | How long do adults sleep? |
      And the state's shared memory is empty
      And the state's handoffs received is 0

    Scenario: A document without content brings no note
      Given the lint HND-12 is off because "an empty document has nothing to show"
      When the user says "How long do adults sleep?"
      And the reference agent hands off to the research agent asking "Published data on sleep" with:
        | reference_document | content             | ""     |
        | reference_document | type                | null   |
        | reference_document | filename            | null   |
        | reference_document | has_content         | false  |
        | referenced_files   | {}                  |        |
        | analysis_context   | needs_calculations  | false  |
        | analysis_context   | calculation_results | null   |
        | analysis_context   | complexity          | simple |
      And the research agent replies "Adults sleep 7 hours."
      And the reference agent replies "About 7 hours."
      Then the context of the research agent has the sections instructions, history and current message
