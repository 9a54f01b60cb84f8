Feature: The desk in a suite that records with vcrpy
  A suite that had vcrpy before it had simkit keeps it: vcrpy plays what was recorded, whoever
  recorded it. simkit compares what a model is asked, which vcrpy alone does not look at.

  Scenario: The conversation is played again
    Given vcrpy plays "openai_chat_plain"
    When the desk is told "I watched the race"
    And the desk is told "Great. Who won in 2025?"
    Then the desk says "Ada won."
    And 3 recordings were played

  Scenario: Instructions that were changed are a miss that shows the line
    Given vcrpy plays "openai_chat_plain"
    And chat is instructed "Chat. Be rude."
    When the desk is told "I watched the race"
    Then nothing answers, and vcrpy shows:
      """
      ~ messages[0] system
          - Chat. What you do not know, pass on: LOOKUP: and a query.
          + Chat. Be rude.
      """
    And 0 recordings were played

  Scenario: What the user never said was never recorded
    Given vcrpy plays "openai_chat_plain"
    When the desk is told "I missed the race"
    Then nothing answers, and vcrpy shows:
      """
      ~ messages[1] user
          - I watched the race
          + I missed the race
      """
