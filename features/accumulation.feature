Feature: Each step builds on the ones before it
  A report is made in three steps by three agents. Every agent gets what those before it found, as
  data that it can work with, and nothing gets lost on the way.

  Background:
    Given the pipeline "database_pipeline"
    And fetch_product_data returns:
      | data | [{"sales": 3}] |
    And analyze_product_data returns:
      | insights | ["Sales go up"] |
    And generate_report returns report "Sales are up"
    When the user says "Run the data pipeline"
    And the database agent calls fetch_product_data
    And the analysis agent calls analyze_product_data with product_json "[3]"
    And the reporting agent calls generate_report with report_json "[up]"

  Scenario: What is known grows by one result a step
    Then these agents ran in order: database agent, analysis agent and reporting agent
    And what the database agent received has agent_results that is empty
    And what the analysis agent received has agent_results that has the keys database_agent_output
    And what the reporting agent received has agent_results that has the keys database_agent_output and analysis_agent_output
    And the state's agent results have 3 items

  Scenario: Each agent is sent its own task, and the data of all others
    Then the context of the database agent has the sections instructions and task
    And the context of the database agent excludes "CONTEXT DATA"
    And the task of the analysis agent is:
      | user | Analyze the product data |
    And the task of the reporting agent is:
      | user | Generate final report |
    And the shared section of the reporting agent contains "database_agent_output"
    And the shared section of the reporting agent contains "Sales go up"
    And the context of the reporting agent excludes "Run the data pipeline"

  Scenario: The steps hand over data that can be checked
    Then these handoffs were requested:
      | from           | to              | outcome | data        | insights    |
      | database agent | analysis agent  | made    | has 1 items |             |
      | analysis agent | reporting agent | made    |             | has 1 items |
    And the reply has report "Sales are up"
