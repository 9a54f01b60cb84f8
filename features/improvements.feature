Feature: Four ways to spare a coach the menu
  Today the workout coach reads all that was said about food. It could read its own conversation, what
  is near to the question, a summary, or the figures alone.

  Background:
    Given the pipeline "improvements"
    And log_meal returns kcal 800
    When the user says "I ate pizza for lunch"
    And the router decides primary_agent "nutrition"
    And nutrition calls log_meal with food "pizza"
    And nutrition replies:
      """
      Logged your pizza, about 800 kcal. For dinner I suggest grilled salmon with brown rice and a large
      green salad. Drink two glasses of water before the meal. Tomorrow have porridge with berries and a
      spoonful of walnuts, and for lunch a lentil soup with a slice of rye bread, so that the week stays
      balanced. If you get hungry in between, take an apple or a handful of almonds.
      """
    And the user says "I ran 4 miles yesterday"
    And the router decides primary_agent "workout_coach"
    And the workout coach replies "Four miles is a solid base."

  Scenario: Today the menu is part of the conversation
    When the user says "I just ran 5 miles"
    And the router decides primary_agent "workout_coach"
    And the workout coach replies "Great run!"
    Then the context of the workout coach includes "grilled salmon"
    And the context of the workout coach has more than 100 tokens
    And the lint CTX-11 is found at the workout coach

  Scenario: One coach reads its own conversation
    When the user says "I just ran 5 miles"
    And the router decides primary_agent "filtered_coach"
    And the filtered coach replies "Great run!"
    Then the context of the filtered coach includes "Four miles is a solid base."
    And the context of the filtered coach excludes messages from nutrition
    And the context of the filtered coach has at most 60 tokens

  Scenario: One coach reads what is near to the question
    Given the state has these exchanges:
      | agent         | score | text                                        |
      | workout_coach | 0.91  | Four miles is a solid base.                 |
      | nutrition     | 0.31  | Grilled salmon with brown rice and a salad. |
    When the user says "I just ran 5 miles"
    And the router decides primary_agent "relevance_coach"
    And the relevance coach replies "Great run!"
    Then the recall of the relevance coach contains "Four miles is a solid base."
    And the context of the relevance coach excludes "salmon"

  Scenario: One coach reads a summary
    When the user says "I just ran 5 miles"
    And the router decides primary_agent "summary_coach"
    And the summary coach replies "Great run!"
    And the summarizer replies "The user had pizza for lunch."
    Then the context of the summary coach includes "The user had pizza for lunch."
    And the context of the summary coach excludes "grilled salmon"
    And the summarizer was asked once

  Scenario: One coach reads the figures
    When the user says "I just ran 5 miles"
    And the router decides primary_agent "explicit_coach"
    And the explicit coach replies "Great run!"
    Then the context of the explicit coach has the sections instructions, shared and current message
    And the shared section of the explicit coach contains "800"
    And the context of the explicit coach excludes "grilled salmon"
