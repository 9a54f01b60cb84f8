Feature: Nobody builds on what is broken
  Between two agents stands a validator. What the first one made must be whole before the second one
  sees it. A refusal stops the work, or has it done again.

  Background:
    Given the pipeline "validation"

  Rule: What is whole goes on

    Scenario: Good data is handed over
      When the user sends goal "stop"
      And the stopping producer decides:
        | data | [{"product": "tent", "sales": 3}] |
      And the analysis agent decides insights "up"
      And the reporting agent replies "Sales are up"
      Then these agents ran in order: stopping producer, analysis agent and reporting agent
      And these handoffs were requested:
        | from              | to             | type         | outcome | data        |
        | stopping producer | analysis agent | product_data | made    | has 1 items |
      And these events happened in order, among others:
        | kind          | agent             |
        | AgentFinished | stopping_producer |
        | HandoffMade   |                   |
        | AgentStarted  | analysis_agent    |
      And the reply is "Sales are up"

  Rule: What is broken stops the work

    Scenario: A record without its structure is refused, at its place
      When the user sends goal "stop"
      And the stopping producer decides:
        | data | [{"product": "tent", "sales": 3}, {"product": "stove", "sales": "many"}] |
      Then the handoff from the stopping producer to the analysis agent was rejected because its reason is "payload.data[1].sales: 'many' is not of type 'number'"

    Scenario: An apology is no data
      When the user sends goal "stop"
      And the stopping producer replies "The database has no sales."
      Then the handoff from the stopping producer to the analysis agent was rejected because its reason contains "is not of type 'object'"

    Scenario: An empty list is no data either
      When the user sends goal "stop"
      And the stopping producer decides:
        | data | [] |
      Then the handoff from the stopping producer to the analysis agent was rejected because its reason contains "rule on payload.data"

    Scenario: Nobody works on after that
      When the user sends goal "stop"
      And the stopping producer decides rows 3
      Then these agents ran in order: stopping producer
      And the stopping producer was asked once
      And the analysis agent was not asked
      And there is no error

  Rule: What is broken is done again

    Scenario: Until it is whole
      When the user sends goal "reject"
      And the rejected producer decides rows 3
      And the rejected producer decides data 3
      And the rejected producer decides:
        | data | [{"product": "tent", "sales": 3}] |
      And the analysis agent decides insights "up"
      Then these agents ran in order: rejected producer, rejected producer, rejected producer and analysis agent
      And the second context of the rejected producer includes a system message that contains "'data' is a required property"
      And the third context of the rejected producer includes a system message that contains "3 is not of type 'array'"
      And these handoffs were requested:
        | from              | to             | outcome  | rows | data        |
        | rejected producer | analysis agent | rejected | 3    |             |
        | rejected producer | analysis agent | rejected |      | 3           |
        | rejected producer | analysis agent | made     |      | has 1 items |

    Scenario: Or once more, and no more
      When the user sends goal "retry"
      And the retried producer decides rows 3
      And the retried producer decides rows 4
      Then the turn ends with the error HandoffInvalid that says "refused again: payload: 'data' is a required property"
      And these agents ran in order: retried producer and retried producer
      And the analysis agent was not asked

    Scenario: A second try that is whole goes on
      When the user sends goal "retry"
      And the retried producer decides rows 3
      And the retried producer decides:
        | data | [{"product": "tent", "sales": 3}] |
      And the analysis agent decides insights "up"
      Then the second context of the retried producer includes a system message that starts with "Handoff to analysis_agent rejected"
      And the reply has insights "up"
