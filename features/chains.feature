Feature: Work passed on twice
  A delegate may delegate in turn, up to a depth. Each answer goes back one level, to the one who asked
  for it. Control that is handed over does not come back.

  Background:
    Given the pipeline "chaining"

  Rule: A delegated answer comes back the way it went

    Background:
      When the user says "Is the storm in chapter 2 plausible?"
      And the fiction editing agent hands off to the story analysis agent asking "Judge the storm" with content_to_analyze "The storm broke in March."
      And the story analysis agent hands off to the research agent asking "Atlantic storms in March" with:
        | constraints | period | 1900 to 1910 |
      And the story analysis agent replies "The storm is plausible."
      And the fiction editing agent replies "Keep the storm."

    Scenario: Each hears the answer to its own question
      When the research agent replies "March storms were common."
      Then these agents ran in order: fiction editing agent, story analysis agent and research agent
      And the story analysis agent delegated to the research agent
      And the handoff section of the research agent contains "1900 to 1910"
      And the second context of the story analysis agent includes "March storms were common."
      And the second context of the fiction editing agent includes "The storm is plausible."
      And the second context of the fiction editing agent excludes "March storms were common."
      And the reply is "Keep the storm."

    Scenario: The third level is too deep
      When the research agent hands off to the content analysis agent asking "Judge the sources" with content_to_analyze "A log book."
      And the research agent replies "March storms were common."
      Then the handoff from the research agent to the content analysis agent was rejected because its reason contains "depth 3 exceeds depth_max 2"
      And the content analysis agent did not run
      And the reply is "Keep the storm."

  Rule: Control that is handed over stays there

    Scenario: The last one in the chain has the last word
      Given the state has first_agent "chat_agent"
      When the user says "I want a humidity alarm"
      And the chat agent hands off to the general project agent asking "Plan a humidity alarm" with goal "humidity alarm"
      And the general project agent hands off to the electronics agent asking "Design it" with project_requirements "5 volts"
      And the electronics agent replies "A sensor and a buzzer."
      Then these agents ran in order: chat agent, general project agent and electronics agent
      And the context of the electronics agent includes "5 volts"
      And the reply is "A sensor and a buzzer."
      And the state has 2 messages
