Feature: What models once answered is answered again
  A conversation was recorded as it went over the wire. It is held again without network and key, for
  as long as the agents send what they sent then.

  Background:
    Given the pipeline "plain_http"
    And the cassette "plain_http/openai_chat_plain"

  Scenario: Research is sent the query, and not the conversation
    When the user says "I watched the race"
    And the user says "Great. Who won in 2025?"
    And the user says "By how much?"
    Then in turn 2, these agents ran in order: chat and research
    And in turn 2, the context of research includes "winner 2025 race"
    And in turn 2, the context of research excludes "I watched"
    And the context of chat includes "Ada won."
    And the context of chat excludes "winner 2025 race"
    And the reply is "Two seconds."

  Scenario: Words that nobody has recorded are answered by nothing
    When the user says "I missed the race"
    Then the turn ends with the error CassetteMissed that says "+ I missed the race"
