Feature: A customer is the same one all along
  Customers and orders are made up: their names, addresses and numbers fit each other, and nobody is
  called what somebody else is called.

  Background:
    Given the pipeline "scenarios/customers/desk.pipeline.yaml"
    And two made-up customers from de_DE
    And a made-up order with:
      | number | ${fake.bothify('A-####')}  |
      | total  | ${fake.random_int(20, 90)} |

  Scenario: Refunds is handed the order and the address, and nothing that was looked up
    When the user says "I am ${customers[0].name}, ${customers[0].email}. My lamp is broken."
    And the clerk calls find_orders with email "${customers[0].email}"
    And find_orders returns these items:
      | number          | total          | item |
      | ${order.number} | ${order.total} | lamp |
    And the clerk hands off to refunds as refund with:
      | order | ${order.number}       |
      | email | ${customers[0].email} |
    And refunds replies "You get ${order.total} euros back for ${order.number}."
    Then the clerk called find_orders with email that ends with "${customers[0].email}"
    And the second context of the clerk includes a tool message that contains "${order.number}"
    And the context of refunds includes "${customers[0].email}"
    And the context of refunds excludes tool messages
    And the reply contains "${order.number}"

  Scenario: Who comes next hears nothing of who was there before
    When the user says "I am ${customers[0].name}" in session "first"
    And the clerk replies "Good morning, ${customers[0].first_name}."
    And the user says "And I am ${customers[1].name}" in session "second"
    And the clerk replies "Good morning, ${customers[1].first_name}."
    Then the context of the clerk excludes "${customers[0].name}"
    And the history of the clerk is empty
    And these agents ran in order: clerk
