Feature: A supervisor has goals
  A goal is a list of agents and tasks. Asked for everything, the supervisor works off all goals in
  their order; asked for one of them, it does that and nothing else.

  Background:
    Given the pipeline "goals"

  Scenario: All goals are worked off, one after the other
    When the user says "Run everything"
    And the database agent decides sales 3
    And the analysis agent decides insights "up"
    And the announcing agent replies "A report is on its way."
    And the analysis agent replies "Sales are up because of the fair."
    Then these agents ran in order: database agent, analysis agent, announcing agent and analysis agent
    And the input of the announcing agent is "Announce the analysis"
    And the input of the second run of the analysis agent is "Answer questions about the analysis"
    And the context of the announcing agent is exactly:
      | system | You announce that a report is on its way. |
      | user   | Announce the analysis                     |
    And the reply is "Sales are up because of the fair."

  Scenario: One goal is worked off alone
    When the user sends goal "goal_2"
    And the announcing agent replies "A report is on its way."
    And the analysis agent replies "There is nothing to analyse yet."
    Then these agents ran in order: announcing agent and analysis agent
    And the database agent was not asked
    And the reply is "There is nothing to analyse yet."

  Scenario: A goal that nobody knows is refused, and those that are there are named
    When the user sends goal "goal_3"
    Then the turn ends with the error NoRoute that says "goals: goal_1, goal_2"
    And no agent started
