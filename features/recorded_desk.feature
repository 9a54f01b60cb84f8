Feature: A recorded desk hands a case over
  Two models of two providers were recorded once. The design is in YAML, so what they are sent is
  made of it, and a changed instruction is not answered.

  Background:
    Given the pipeline "scenarios/recorded_desk/desk.pipeline.yaml"
    And the cassette "recorded_desk"

  Scenario: Billing is handed the order, and looks it up
    When the user says "My order A-1042 came broken, I want my money back"
    And find_order returns:
      | id    | A-1042    |
      | state | delivered |
      | paid  | 40        |
    And the user says "Thank you"
    Then in turn 1, these agents ran in order: triage and billing
    And in turn 1, triage handed off to billing with order "A-1042"
    And in turn 1, the context of billing includes a system message that contains "A-1042"
    And these agents ran in order: triage
    And nobody handed off
