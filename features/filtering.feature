Feature: What a coach is spared
  The coaches share one conversation. What a colleague looked up, calculated or was told by a tool
  is the colleague's own business: it would only distract, and it costs money on every message.

  Background:
    Given the pipeline "fitness_coach"
    And log_meal returns kcal 800 and food "pizza"
    When the user says "I had pizza for lunch"
    And the router decides primary_agent "nutrition" and complexity "simple"
    And nutrition calls log_meal with food "pizza"
    And nutrition replies "Logged your pizza."
    And the user says "I just ran 5 miles"
    And the router decides primary_agent "workout_coach" and complexity "simple"
    And the workout coach replies "Great run!"

  Scenario: A coach reads what was said, not how it came about
    Then the history of the workout coach is:
      | user      | I had pizza for lunch |
      | assistant | Logged your pizza.    |
    And the context of the workout coach excludes tool messages
    And the context of the workout coach excludes "800"

  Scenario: Every message that was left out is accounted for
    Then these messages were dropped from the context of the workout coach:
      | agent     | role      | what       | by              |
      | router    | assistant | message    | intermediate_ai |
      | nutrition | assistant | tool_calls | tool_calls      |
      | nutrition | assistant | message    | intermediate_ai |
      | nutrition | tool      | message    | tool_messages   |
      | router    | assistant | message    | intermediate_ai |
    And "800" was dropped from the context of the workout coach by tool_messages

  Scenario: The coach who looked it up still knows it
    Then in turn 1, the last context of nutrition includes a tool message that contains "800"
    And in turn 1, the context of nutrition offers the tools log_meal and lookup_food
    And the context of the workout coach has at most 60 tokens
