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

  Scenario: A report that is a number is passed on as a number
    Given fetch_product_data returns:
      | data | [{"sales": 3}] |
    And analyze_product_data returns insights "up"
    And generate_report returns "42"
    When the user says "Run the data pipeline"
    And the database agent calls fetch_product_data
    And the analysis agent calls analyze_product_data with product_json "[3]"
    And the reporting agent calls generate_report with report_json "[up]"
    Then the state's agent results have reporting_agent_output 42

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

  Scenario: The last agent is sent its prompt, all data, and how to use it
    Given fetch_product_data returns:
      | data | [{"sales": 3}] |
    And analyze_product_data returns:
      | insights | ["up"] |
    And generate_report returns report "Sales are up"
    When the user says "Run the data pipeline"
    And the database agent calls fetch_product_data
    And the analysis agent calls analyze_product_data with product_json "[3]"
    And the reporting agent calls generate_report with report_json "[up]"
    Then the instructions of the database agent are:
      | system | You fetch data from the database |
    And the instructions of the analysis agent contain "You will receive CONTEXT DATA"
    And the instructions of the analysis agent contain "pass it as a JSON STRING to your analysis tools"
    And the instructions of the reporting agent contain "You will receive CONTEXT DATA"
    And the instructions of the reporting agent contain "Tools expect JSON STRING parameters"
    And the context of the database agent offers the tools fetch_product_data
    And the context of the analysis agent offers the tools analyze_product_data
    And the context of the reporting agent offers the tools generate_report
    And the context of the reporting agent includes a system message that contains:
      """
      CONTEXT DATA (use this in your tool calls):
      ```json
      {
        "database_agent_output": {
          "data": [
            {
              "sales": 3
            }
          ]
        },
        "analysis_agent_output": {
          "insights": [
            "up"
          ]
        }
      }
      ```
      """

  Scenario: A result that is JSON is data, and prose stays prose
    Given fetch_product_data returns:
      """
      {"data": [{"sales": 3}]}
      """
    And analyze_product_data returns insights "up"
    And generate_report returns "Sales are up: {\"sales\": 3}"
    When the user says "Run the data pipeline"
    And the database agent calls fetch_product_data
    And the analysis agent calls analyze_product_data with product_json "[3]"
    And the reporting agent calls generate_report with report_json "[up]"
    Then the output of the database agent is:
      | data | [{"sales": 3}] |
    And what the analysis agent received has agent_results that has the keys database_agent_output
    And the analysis agent received:
      | agent results | database_agent_output | data | [{"sales": 3}] |
    And the output of the reporting agent is "Sales are up: {\"sales\": 3}"

  Scenario: Every run begins with nothing
    Given fetch_product_data returns:
      | data | [{"sales": 3}] |
    And analyze_product_data returns insights "up"
    And generate_report returns report "Sales are up"
    When the user says "Run the data pipeline"
    And the database agent calls fetch_product_data
    And the analysis agent calls analyze_product_data with product_json "[3]"
    And the reporting agent calls generate_report with report_json "[up]"
    And the user says "Run it again"
    And the database agent calls fetch_product_data
    And the analysis agent calls analyze_product_data with product_json "[3]"
    And the reporting agent calls generate_report with report_json "[up]"
    Then the context of the database agent is exactly:
      | system | You fetch data from the database |
      | user   | Fetch product sales data         |
    And the context of the analysis agent excludes "Sales are up"

  Scenario: An agent that never comes to an end is stopped
    Given fetch_product_data fails with "the connection was lost"
    When the user says "Run the data pipeline"
    And the database agent calls fetch_product_data with try 1
    And the database agent calls fetch_product_data with try 2
    And the database agent calls fetch_product_data with try 3
    And the database agent calls fetch_product_data with try 4
    And the database agent calls fetch_product_data with try 5
    Then the turn ends with the error LimitExceeded
    And the database agent was asked 5 times
    And the analysis agent was not asked
    And the lint FLW-01 is found

  Scenario: Tools take the data as a text
    Given fetch_product_data returns:
      | data | [{"sales": 3}] |
    And analyze_product_data returns insights "up"
    And generate_report returns report "Sales are up"
    When the user says "Run the data pipeline"
    And the database agent calls fetch_product_data
    And the analysis agent calls analyze_product_data with product_json "[3]"
    And the reporting agent calls generate_report with report_json "[up]"
    Then the analysis agent called analyze_product_data with product_json that is a string
    And the reporting agent called generate_report with report_json that is a string
    And the tools in the context of the analysis agent have an item with parameters that has properties that has product_json that has type "string"
    And the tools in the context of the analysis agent have an item with parameters that has required that contains "product_json"
    And the tools in the context of the reporting agent have an item with parameters that has properties that has report_json that has type "string"
    And the tools in the context of the reporting agent have an item with parameters that has required that contains "report_json"
