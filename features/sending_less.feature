Feature: Five ways to send less, and to lose nothing
  Today the last agent is sent everything that the others put out. It can be sent what matters, or as
  much as fits; it can look up the rest, find what an earlier run kept, and be spared what is broken.

  Background:
    Given the pipeline "enhancements"

  Rule: The table is long, and one line of it matters

    Background:
      Given fetch_product_data returns these items as data:
        | product | region | sales | returned | note                   |
        | tent    | north  | 31    | 2        | Sold out twice in June |
        | stove   | north  | 12    | 0        | New since the fair     |
        | lamp    | north  | 44    | 5        | Two broken on the way  |
        | tent    | south  | 27    | 1        | Discount until August  |
        | stove   | south  | 9     | 1        | Shop closed for a week |
        | lamp    | south  | 38    | 2        | Ordered again in July  |
        | tent    | coast  | 52    | 3        | Best month so far      |
        | stove   | coast  | 21    | 0        | Sold with the tents    |
      And the database agent calls fetch_product_data
      And the analysis agent decides insights "Tents sell best on the coast"

    Scenario: Today everything is sent
      Given the reporting agent replies "Tents sell best."
      When the user sends goal "today"
      Then the context of the reporting agent includes "Shop closed for a week"
      And the tokens in the context of the reporting agent are more than 300

    Scenario: What matters is sent
      Given the filtered reporting agent replies "Tents sell best."
      When the user sends goal "filtered"
      Then the context of the filtered reporting agent includes "Tents sell best on the coast"
      And the context of the filtered reporting agent excludes "Shop closed for a week"
      And the tokens in the context of the filtered reporting agent are less than 50

    Scenario: As much as fits is sent, and the rest is accounted for
      Given the compressed reporting agent replies "Tents sell best."
      When the user sends goal "compressed"
      Then the context of the compressed reporting agent includes "Sold out twice"
      And the context of the compressed reporting agent excludes "Shop closed for a week"
      And these items were left out of the context of the compressed reporting agent:
        | channel       | path                       | by     | items |
        | agent_results | database_agent_output.data | tokens | 6     |
      And the tokens in the context of the compressed reporting agent are less than 150

    Scenario: What is asked for is looked up
      Given the querying reporting agent calls query_context with path "analysis_agent_output.insight"
      And the querying reporting agent calls query_context with path "analysis_agent_output.insights"
      And the querying reporting agent replies "Tents sell best."
      When the user sends goal "queried"
      Then the context of the querying reporting agent has the sections instructions and task
      And the querying reporting agent called query_context and got the error "Did you mean `analysis_agent_output.insights`?"
      And the querying reporting agent called query_context and got a result that is "Tents sell best on the coast"
      And the third context of the querying reporting agent excludes "Shop closed for a week"

    Scenario: Another day finds what was kept, another project does not
      Given the reporting agent replies "Tents sell best."
      When the user sends goal "today"
      And the user sends goal "restored" in session "Tuesday"
      And the restored reporting agent replies "Tents still sell best."
      Then these agents ran in order: restored reporting agent
      And the context of the restored reporting agent includes "Shop closed for a week"

      When the user sends goal "restored" in session "Wednesday" in project "Another shop"
      And the restored reporting agent replies "Nothing is known."
      Then the context of the restored reporting agent has the sections instructions and task

    Scenario: What was kept survives a restart
      Given the reporting agent replies "Tents sell best."
      When the user sends goal "today"
      And a new process takes over
      And the user sends goal "restored" in session "Tuesday"
      And the restored reporting agent replies "Tents still sell best."
      Then the context of the restored reporting agent includes "Shop closed for a week"

  Rule: What is broken is not kept

    Scenario: Data that is no table ends the work
      Given fetch_product_data returns data "The connection was lost"
      When the user sends goal "checked"
      And the checked database agent calls fetch_product_data
      Then the turn ends with the error WriteInvalid that says "is not of type 'array'"
      And the analysis agent was not asked
      And the state's agent results are empty
