Feature: Refunds
  Triage looks the order up and hands the customer over. The refund agent is told which order it is
  about, and no more.

  Scenario: The refund agent is told the order
    Given the pipeline "support"
    And find_order returns order_id "A-1042" and email "ada@example.com"
    When the user says "My headphones are broken, I want my money back"
    And triage calls find_order with customer "Ada"
    And triage hands off to refunds with order_id "A-1042"
    And refunds replies "I have refunded order A-1042."
    Then these agents ran in order: triage and refunds
    And the context of refunds includes "A-1042"
    And the context of refunds excludes "ada@example.com"
