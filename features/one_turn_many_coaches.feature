Feature: Several coaches answer one message
  The router may send one message to several coaches, one after the other. Each reads what those before
  it answered and looked up, briefly, and adds its own.

  Background:
    Given the pipeline "fitness_coach"
    And the time is 2026-01-05 09:00

  Rule: Each adds to what the others left

    Scenario: Three answers pile up
      When the user says "I ate pizza, then ran 5 miles. How am I doing?"
      And the router decides:
        | primary_agent | ["nutrition", "workout_coach", "workout_analyst"] |
        | complexity    | complex                                           |
      And nutrition replies "Logged your pizza." after 200 ms
      And the workout coach replies "Great run!" after 300 ms
      And the workout analyst replies "You are doing well."
      Then these agents ran in order: router, nutrition, workout coach and workout analyst
      And what the workout coach received has agent_outputs that has the keys nutrition
      And what the workout analyst received has agent_outputs that has the keys nutrition and workout_coach
      And the previous agents section of the workout analyst contains "## nutrition:" and "## workout_coach:"
      And what the workout analyst received has total_execution_time_ms 500
      And the state's agent outputs have the keys nutrition, workout_coach and workout_analyst

    Scenario: The time of each message is counted anew
      When the user says "I ate pizza"
      And the router decides primary_agent "nutrition" and complexity "simple"
      And nutrition replies "Logged your pizza." after 200 ms
      And the user says "And soup"
      And the router decides primary_agent "nutrition" and complexity "simple"
      And nutrition replies "Logged your soup." after 300 ms
      Then the state has total_execution_time_ms 300

    Scenario: A later coach reads the answer, and what the tools said
      Given log_meal returns kcal 800
      When the user says "I ate pizza, then ran 5 miles"
      And the router decides:
        | primary_agent | ["nutrition", "workout_coach"] |
        | complexity    | complex                        |
      And nutrition calls log_meal with food "pizza"
      And nutrition replies "Logged your pizza."
      And the workout coach replies "Great run, that was half a pizza."
      Then the workout coach received:
        | agent outputs | nutrition | reply        | Logged your pizza.          |
        | agent outputs | nutrition | tool_results | {"log_meal": {"kcal": 800}} |
      And the context of the workout coach includes a system message that starts with "# Context from Previous Agents"
      And the context of the workout coach includes a system message that matches /## nutrition:\s+Logged your pizza\.\s+\*\*Structured Data:\*\*\s+```json/
      And the context of the workout coach includes a system message that contains "log_meal" and "800"

    Scenario: Whoever runs again is told of the others, and not of itself
      When the user says "I ate pizza, then ran 5 miles"
      And the router decides:
        | primary_agent | ["nutrition", "workout_coach", "nutrition"] |
        | complexity    | complex                                     |
      And nutrition replies "Logged your pizza."
      And the workout coach replies "Great run!"
      And nutrition replies "The run has burnt half of it."
      Then the second context of nutrition has the sections instructions, previous agents, history and current message
      And the previous agents section in the second context of nutrition contains "Great run!"
      And the previous agents section in the second context of nutrition does not contain "Logged your pizza."

    Scenario: A long answer is cut after 500 characters
      When the user says "I ate pizza, then ran 5 miles"
      And the router decides:
        | primary_agent | ["nutrition", "workout_coach"] |
        | complexity    | complex                        |
      And nutrition replies:
        """
        123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.123456789.beyond the cut
        """
      And the workout coach replies "Great run!"
      Then the context of the workout coach includes a system message that matches /nutrition:\n(123456789\.){50}$/

  Rule: An answer says how it came about

    Scenario: Whose it is, what was looked up, and how long it took
      Given log_meal returns kcal 800 after 1500 ms
      When the user says "I ate pizza for lunch"
      And the router decides primary_agent "nutrition" and complexity "simple"
      And nutrition calls log_meal with food "pizza" after 200 ms
      And nutrition replies "Logged your pizza." after 300 ms
      Then what nutrition wrote has agent_outputs that has the keys nutrition
      And the state has:
        | agent_outputs | nutrition | agent        | nutrition                     |
        | agent_outputs | nutrition | reply        | Logged your pizza.            |
        | agent_outputs | nutrition | tools_called | ["log_meal"]                  |
        | agent_outputs | nutrition | tool_results | {"log_meal": {"kcal": 800}}   |
        | agent_outputs | nutrition | timestamps   | contain "2026-01-05T09:00:01" |
        | agent_outputs | nutrition | took_ms      | 2000                          |
        | agent_outputs | nutrition | messages     | have 3 items                  |
      And the state has these usage_tracker:
        | agent     |
        | router    |
        | nutrition |

    Scenario: The last result of a tool is the one that counts
      When the user says "I ate pizza and an apple"
      And the router decides primary_agent "nutrition" and complexity "simple"
      And nutrition calls lookup_food with food "pizza"
      And nutrition calls log_meal with food "pizza"
      And nutrition calls log_meal with food "apple"
      And nutrition replies "Logged both."
      And lookup_food returns found true
      And log_meal returns kcal 800
      And log_meal returns kcal 80
      Then the state has:
        | agent_outputs | nutrition | tool_results | log_meal    | kcal  | 80   |
        | agent_outputs | nutrition | tool_results | lookup_food | found | true |

    Scenario: What a coach adds to the conversation is its answer alone
      Given log_workout returns done true
      When the user says "I just ran 5 miles"
      And the router decides primary_agent "workout_coach" and complexity "simple"
      And the workout coach calls log_workout with miles 5
      And the workout coach replies "Great run!"
      Then what the workout coach wrote has messages that have one item

    Scenario: A tool that fails is noted among the errors
      Given log_meal fails with "the meal store is unavailable"
      When the user says "I ate pizza for lunch"
      And the router decides primary_agent "nutrition" and complexity "simple"
      And nutrition calls log_meal with food "pizza"
      And nutrition replies "I could not log that."
      Then the state has one errors
      And the state's errors have an item that contains "the meal store is unavailable"

    Scenario: Of two tools the one that fails is noted, be it the last or the first
      When the user says "I ate an apple at noon"
      And the router decides primary_agent "nutrition" and complexity "simple"
      And nutrition calls lookup_food with food "apple"
      And nutrition calls log_meal with food "apple"
      And nutrition replies "I could not log that."
      And lookup_food returns kcal 80
      And log_meal fails with "the meal store is unavailable"
      Then the state has one errors
      And the state's errors have an item that contains "the meal store is unavailable"

      When the user says "I ate a pear, too"
      And the router decides primary_agent "nutrition" and complexity "simple"
      And nutrition calls lookup_food with food "pear"
      And nutrition calls log_meal with food "pear"
      And nutrition replies "Logged your pear, without its energy."
      And lookup_food fails with "the food table is unavailable"
      And log_meal returns kcal 60
      Then the state has one errors
      And the state's errors have an item that contains "the food table is unavailable"

  Rule: A handoff is remembered for the turn

    Scenario: The analyst knows who sent the run, the next turn does not
      When the user says "How was my run compared to last week?"
      And the router decides primary_agent "workout_coach" and complexity "complex"
      And the workout coach hands off to the workout analyst with distance_km 8
      And the workout analyst replies "12 % faster."
      Then the state has:
        | handoff_context | from    | workout_coach       |   |
        | handoff_context | type    | analysis_delegation |   |
        | handoff_context | payload | distance_km         | 8 |

      When the user says "Thanks!"
      And the router decides primary_agent "workout_coach" and complexity "simple"
      And the workout coach replies "You are welcome."
      Then what the workout coach received has handoff_context null
