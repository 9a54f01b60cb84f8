Feature: How much of the past a coach reads
  Coaches read what was said, and not how it came about. One reads everything, one reads what was said
  on the way, and two read the last rounds alone.

  Background:
    Given the pipeline "history_options"
    And log_meal returns kcal 800

  Scenario: One coach reads everything
    When the user says "I ate pizza for lunch"
    And the router decides primary_agent "nutrition"
    And nutrition calls log_meal with food "pizza"
    And nutrition replies "Logged your pizza."
    And the user says "I just ran 5 miles"
    And the router decides primary_agent "unfiltered_coach"
    And the unfiltered coach replies "Great run!"
    Then nothing was dropped from the context of the unfiltered coach
    And the context of the unfiltered coach includes a tool message that contains "kcal"

  Scenario: One coach reads what was said on the way, without the tools
    When the user says "I ate pizza for lunch"
    And the router decides primary_agent "nutrition"
    And nutrition says "Let me log that." and calls log_meal with food "pizza"
    And nutrition replies "Logged your pizza."
    And the user says "I just ran 5 miles"
    And the router decides primary_agent "intermediate_coach"
    And the intermediate coach replies "Great run!"
    Then the context of the intermediate coach includes "Let me log that."
    And the context of the intermediate coach excludes tool messages
    And the messages in the context of the intermediate coach have only items with calls that are empty

  Scenario: One coach reads the last round, whoever spoke in it
    When the user says "I had porridge for breakfast"
    And the router decides primary_agent "nutrition"
    And nutrition replies "A good start."
    And the user says "I ate pizza, then ran 5 miles"
    And the router decides:
      | primary_agent | ["nutrition", "workout_coach"] |
    And nutrition replies "Logged your pizza."
    And the workout coach replies "Great run!"
    And the user says "What next?"
    And the router decides primary_agent "one_round_coach"
    And the one round coach replies "Rest."
    Then the history of the one round coach is:
      | user      | I ate pizza, then ran 5 miles |
      | assistant | Logged your pizza.            |
      | assistant | Great run!                    |

  Scenario: One coach reads the last two rounds of four
    When the user says "I had porridge for breakfast"
    And the router decides primary_agent "nutrition"
    And nutrition replies "A good start."
    And the user says "I had soup for lunch"
    And the router decides primary_agent "nutrition"
    And nutrition replies "Warm."
    And the user says "I had tea"
    And the router decides:
      | primary_agent | ["nutrition", "workout_coach"] |
    And nutrition replies "Noted."
    And the workout coach replies "Tea is fine."
    And the user says "I ran 5 miles"
    And the router decides primary_agent "workout_coach"
    And the workout coach replies "Great run!"
    And the user says "What next?"
    And the router decides primary_agent "two_rounds_coach"
    And the two rounds coach replies "Rest."
    Then the history of the two rounds coach is:
      | user      | I had tea     |
      | assistant | Noted.        |
      | assistant | Tea is fine.  |
      | user      | I ran 5 miles |
      | assistant | Great run!    |
