Feature: Three ways to work together
  Two search at the same time and a third one reads both. One writes and another judges until it is
  good. Or each step keeps what it found, for whoever comes later.

  Rule: Two search side by side, and one reads both

    Background:
      Given the pipeline "patterns_gather"
      And search_docs returns found "chapter 3"
      And search_code returns found "line 12"

    Scenario: Neither knows of the other, and the analysis knows of both
      When the user sends request "How do we sign tokens?"
      And search_docs calls search_docs with query "sign"
      And search_docs decides docs "security.md"
      And search_code calls search_code with query "sign"
      And search_code decides code "auth.py"
      And analyze_together replies "security.md describes what auth.py does."
      Then these agents ran in order: gather, search_docs beside search_code and analyze_together
      And the context of search_code excludes "security.md"
      And the input of analyze_together has the keys search_docs and search_code
      And the upstream of analyze_together contains "chapter 3" and "line 12"

    Scenario: What is written at the same time is kept apart
      When the user sends request "How do we sign tokens?"
      And search_docs replies "By RS256."
      And search_code replies "By HS256."
      And analyze_together replies "The documentation is old."
      Then the state's task summary is "By RS256."
      And the state's project summary is "By HS256."

      When the user sends request "And now?" in session "Tomorrow"
      And search_docs replies "By HS256."
      And search_code replies "By HS256."
      And analyze_together replies "They agree."
      Then gather received the task summary null
      And gather received the project summary "By HS256."

  Rule: One writes, another judges, until it is good

    Background:
      Given the pipeline "patterns_refinement"

    Scenario: What is good is done
      When the user sends request "A slogan"
      And generate replies "Buy it."
      And evaluate decides quality "good"
      Then these agents ran in order: generate, evaluate and exit
      And refine was not asked

    Scenario: What is poor is written again
      When the user sends request "A slogan"
      And generate replies "Buy it."
      And evaluate decides quality "poor"
      And refine replies "Speak to the reader."
      And generate replies "You will like it."
      And evaluate decides quality "good"
      Then these agents ran in order: generate, evaluate, refine, generate, evaluate and exit
      And the input of the second run of generate is "Speak to the reader."
      And the state has two drafts

    Scenario: What never gets good is given up
      When the user sends request "A slogan"
      And generate replies "Buy it."
      And evaluate decides quality "poor"
      And refine replies "Speak to the reader."
      And generate replies "Buy two."
      And evaluate decides quality "poor"
      And refine replies "Still not."
      And generate replies "Buy three."
      And evaluate decides quality "poor"
      And refine replies "Still not."
      Then the turn ends with the error LimitExceeded that says "9 allowed"
      And the lint FLW-01 is found with limit "agent_runs_per_turn" and allowed 9
      And generate was asked 3 times

    Scenario: Not good is neither good nor poor
      When the user sends request "A slogan"
      And generate replies "Buy it."
      And evaluate decides quality "not good"
      Then the turn ends with the error NoRoute that says "good, poor"
      And refine did not run

  Rule: Each step keeps what it found

    Background:
      Given the pipeline "patterns_accumulation"
      When the user sends request "How is the weather in May?"
      And step1 replies "It rained on 9 days."
      And step2 replies "That is 29 percent."
      And step3 replies "May is dry."

    Scenario: Later steps see what earlier ones found
      Then the context of step1 has the sections instructions
      And the recall of step2 contains "It rained on 9 days."
      And the recall of step3 contains "It rained on 9 days." and "That is 29 percent."
      And the state has two project_items

    Scenario: The next task sees it too, another project does not
      When the user sends request "And in June?" in session "June"
      And step1 replies "It rained on 12 days."
      And step2 replies "That is 40 percent."
      And step3 replies "June is wet."
      Then the recall of step1 contains "It rained on 9 days." and "That is 29 percent."

      When the user sends request "And there?" in session "Abroad" in project "Abroad"
      And step1 replies "It rained on 20 days."
      And step2 replies "That is 66 percent."
      And step3 replies "It is wet there."
      Then the context of step1 has the sections instructions
