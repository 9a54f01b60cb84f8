Feature: Refunds
  Triage looks the order up and hands the customer over. The refund agent is told which order it is
  about, and no more.

  Scenario: The refund agent is told the order
    Given the pipeline "support"
    When the user says "My headphones are broken, I want my money back"
    And find_order returns order_id "A-1042" and email "ada@example.com"
    And triage calls find_order with customer "Ada"
    And triage hands off to refunds with order_id "A-1042"
    And refunds replies "I have refunded order A-1042."
    Then these agents ran in order: triage and refunds
    And the context of refunds includes "A-1042"
    And the context of refunds excludes "ada@example.com"
    When the user says "The keyboard is broken, too"
    And find_order returns order_id "B-7" and email "ada@example.com"
    And triage calls find_order with customer "Ada"
    And triage hands off to refunds with order_id "B-7"
    And refunds replies "I have refunded order B-7."
    Then the context of refunds includes "B-7"
    And the context of refunds includes "I have refunded order A-1042."
    And the context of refunds excludes "ada@example.com"
    And the context of refunds has 5 messages
