Feature: The fitness coach
  A router chooses one coach for every message. The coaches share one conversation, and a coach
  must see what the user said to the others, but nothing of how the others did their work.

  Background:
    Given the pipeline "fitness_coach"

  Scenario: The workout coach knows about lunch, but not about the calories
    Given log_meal returns kcal 800
    When the user says "I ate pizza for lunch"
    And the router decides primary_agent "nutrition" and complexity "simple"
    And nutrition calls log_meal with food "pizza"
    And nutrition replies "Logged your pizza."
    Then these agents ran in order: router, nutrition
    And nutrition called log_meal with food "pizza"
    And the reply is "Logged your pizza."

    When the user says "I just ran 5 miles"
    And the router decides primary_agent "workout_coach" and complexity "simple"
    And the workout coach replies "Great run!"
    Then nutrition was not asked
    And the history of the workout coach is:
      | user      | I ate pizza for lunch |
      | assistant | Logged your pizza.    |
    And the context of the workout coach excludes tool messages
    And the context of the workout coach excludes "800"

  Scenario: The analyst is handed the run, and answers in the coach's place
    When the user says "How was my run compared to last week?"
    And the router decides primary_agent "workout_coach" and complexity "complex"
    And the workout coach hands off to the workout analyst with distance_km 8
    And the workout analyst replies "12 % faster."
    Then these agents ran in order: router, workout coach and workout analyst
    And the workout coach handed off to the workout analyst with distance_km 8
    And what the workout analyst received has handoff_context that has from "workout_coach" and payload that has distance_km 8
    And the context of the workout analyst has the sections instructions, handoff and current_message
    And the instructions of the workout analyst contain "You analyse workouts."
    And the context of the workout analyst includes "distance_km"
    And the reply is "12 % faster."

  Scenario: What the user once told one coach reaches every coach
    Given the state has these notes:
      | agent     | text                 | at                   |
      | nutrition | Prefers metric units | 2026-01-04T08:00:00Z |
    And the state has user_timezone "Europe/Berlin"
    When the user says "How far did I run?"
    And the router decides primary_agent "workout_coach" and complexity "simple"
    And the workout coach replies "You ran 8 km."
    Then the context of the workout coach includes "Prefers metric units"
    And the reply contains "8 km"
    And the state has user_timezone "Europe/Berlin"
    And the state has 2 messages
    And nobody handed off

  Scenario: What distracts a coach is noticed
    Given log_meal returns kcal 800
    When the user says "I ate pizza for lunch"
    And the router decides primary_agent "nutrition" and complexity "simple"
    And nutrition calls log_meal with food "pizza"
    And nutrition replies "Logged your pizza, about 800 kcal. That leaves 1200 kcal for a light dinner tonight."
    And the user says "I just ran 5 miles"
    And the router decides primary_agent "workout_coach" and complexity "simple"
    And the workout coach replies "Great run!"
    Then the lint CTX-11 is found at the workout coach

  Scenario: A long conversation is known from its first word
    Given the state has these messages:
      | role      | content                      | agent     |
      | user      | I had porridge for breakfast |           |
      | assistant | A good start.                | nutrition |
      | user      | I had apple number 2         |           |
      | assistant | That makes 2.                | nutrition |
      | user      | I had apple number 3         |           |
      | assistant | That makes 3.                | nutrition |
      | user      | I had apple number 4         |           |
      | assistant | That makes 4.                | nutrition |
      | user      | I had apple number 5         |           |
      | assistant | That makes 5.                | nutrition |
      | user      | I had apple number 6         |           |
      | assistant | That makes 6.                | nutrition |
      | user      | I had apple number 7         |           |
      | assistant | That makes 7.                | nutrition |
      | user      | I had apple number 8         |           |
      | assistant | That makes 8.                | nutrition |
      | user      | I had apple number 9         |           |
      | assistant | That makes 9.                | nutrition |
      | user      | I had apple number 10        |           |
      | assistant | That makes 10.               | nutrition |
      | user      | I had apple number 11        |           |
      | assistant | That makes 11.               | nutrition |
      | user      | I had apple number 12        |           |
      | assistant | That makes 12.               | nutrition |
    When the user says "What did I have first?"
    And the router decides primary_agent "nutrition" and complexity "simple"
    And nutrition replies "Porridge."
    Then the history of nutrition has 24 items
    And the history of nutrition contains "porridge" and "A good start."
  Scenario: A question is simple or complex, and nothing else
    When the user says "I ate pizza for lunch"
    And the router decides primary_agent "nutrition" and complexity "simple"
    And nutrition replies "Enjoy it."
    Then the settings of the context of the router have output that has properties that has complexity that has enum that contains "simple" and "complex"

  Scenario: What a tool says is no error unless it failed
    Given log_meal returns kcal 300
    When the user says "I ate soup"
    And the router decides primary_agent "nutrition" and complexity "simple"
    And nutrition calls log_meal with food "soup"
    And nutrition replies "Logged your soup."
    Then the state's errors are empty
