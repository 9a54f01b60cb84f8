Feature: Each task goes to its specialist
  A project knows who researches, who analyses and who writes. Each is sent what such a task needs,
  and the project's agent makes one answer of what comes back.

  Background:
    Given the pipeline "delegation_types"

  Scenario: Research is sent the document, the analysis so far, and its limits
    When the user says "Which sensor fits my greenhouse?"
    And the general project agent hands off to the research agent as research delegation asking "Humidity sensors" with:
      | reference_document | content | Greenhouse of 12 square metres. |
      | analysis_context   | checked | power budget                    |
      | constraints        | sources | datasheets                      |
    And the research agent replies "The SHT45 is accurate."
    And the general project agent replies "Take the SHT45."
    Then the handoff section of the research agent contains "Greenhouse of 12 square metres.", "power budget" and "datasheets"
    And the general project agent delegated to the research agent
    And the reply is "Take the SHT45."

  Scenario: Others may ask for research too
    Given the state has active_agent "fiction_editing_agent"
    When the user says "Is the storm in chapter 2 plausible?"
    And the fiction editing agent hands off to the research agent as research delegation asking "Storms in March" with:
      | reference_document | content | The storm broke in March. |
      | analysis_context   | checked | chapter 2                 |
      | constraints        | period  | 1900 to 1910              |
    And the research agent replies "March storms are common."
    And the fiction editing agent replies "Yes, it is."
    Then the fiction editing agent delegated to the research agent
    And the reply is "Yes, it is."

  Scenario: Two specialists look at one text
    When the user says "Is my blog post any good?"
    And the general project agent hands off to the content analysis agent as analysis delegation asking "Judge the structure" with:
      | content_to_analyze | Ten tips for tomatoes. |
      | analysis_type      | structure              |
      | criteria           | ["clarity"]            |
    And the general project agent hands off to the story analysis agent as analysis delegation asking "Judge the story" with:
      | content_to_analyze | Ten tips for tomatoes. |
      | analysis_type      | narrative              |
      | criteria           | ["tension"]            |
    And the content analysis agent replies "The structure is clear."
    And the story analysis agent replies "There is no tension."
    And the general project agent replies "Clear, but without tension."
    Then these agents ran in order: general project agent, content analysis agent and story analysis agent
    And the general project agent delegated to the content analysis agent
    And the general project agent delegated to the story analysis agent
    And the context of the story analysis agent includes "tension"
    And a handoff from the general project agent to the story analysis agent as analysis delegation must carry content_to_analyze, analysis_type and criteria
    And the reply is "Clear, but without tension."

  Scenario: A story and a circuit come from two hands
    When the user says "Write a story about my greenhouse and draw its circuit"
    And the general project agent hands off to the fiction editing agent as generation delegation asking "A short story" with:
      | generation_context | A greenhouse at night. |
      | style_guide        | gentle                 |
      | constraints        | {"words": 300}         |
    And the general project agent hands off to the electronics agent as generation delegation asking "A circuit" with:
      | generation_context | A humidity alarm. |
      | style_guide        | schematic         |
      | constraints        | {"volts": 5}      |
    And the fiction editing agent replies "The tomatoes slept."
    And the electronics agent replies "A sensor and a buzzer."
    And the general project agent replies "Here are both."
    Then the general project agent handed off to the electronics agent as generation delegation with style_guide "schematic"
    And the context of the electronics agent includes "volts"
    And a handoff from the general project agent to the electronics agent as generation delegation must carry generation_context, style_guide and constraints
    And the reply is "Here are both."
