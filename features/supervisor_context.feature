Feature: A supervisor works off a list of steps
  The supervisor asks one agent after the other. A step whose result is not what the next agent
  needs stops the work, before anybody builds on it.

  Background:
    Given the pipeline "database_pipeline"

  Scenario: A result that nobody can use goes no further
    Given fetch_product_data returns rows 3
    When the user says "Run the data pipeline"
    And the database agent calls fetch_product_data
    Then these agents ran in order: database agent
    And the handoff from the database agent to the analysis agent was rejected because its reason contains "'data'"
    And the analysis agent was not asked

  Scenario: Each agent is asked once, for one thing
    Given fetch_product_data returns:
      | data | [{"sales": 3}, {"sales": 5}] |
    And analyze_product_data returns insights "up"
    And generate_report returns report "Sales are up"
    When the user says "Run the data pipeline"
    And the database agent calls fetch_product_data
    And the analysis agent calls analyze_product_data with product_json "[3, 5]"
    And the reporting agent calls generate_report with report_json "[up]"
    Then the database agent was asked once
    And the analysis agent was asked once
    And the reporting agent was asked once
    And these tools were called in order:
      | agent           | tool                 | product_json | report_json |
      | database agent  | fetch_product_data   |              |             |
      | analysis agent  | analyze_product_data | "[3, 5]"     |             |
      | reporting agent | generate_report      |              | "[up]"      |
    And the input of the analysis agent is "Analyze the product data"

  Scenario: The prompt says where the data is
    Given fetch_product_data returns:
      | data | [{"sales": 3}] |
    And analyze_product_data returns insights "up"
    And generate_report returns report "Sales are up"
    When the user says "Run the data pipeline"
    And the database agent calls fetch_product_data
    And the analysis agent calls analyze_product_data with product_json "[3]"
    And the reporting agent calls generate_report with report_json "[up]"
    Then the context of the analysis agent includes a system message that contains "CONTEXT DATA (use this in your tool calls):"
    And the context of the analysis agent includes a system message that ends with "You can reference fields from this data when calling tools."
    And the context of the analysis agent has 2 messages
