Feature: Everybody has a conversation of their own
  Two people talk to the same assistant. Neither hears of the other, and each finds the conversation
  where it was left.

  Background:
    Given the pipeline "research_assistant"

  Scenario: A new conversation starts clean beside an old one
    When the user says "Tell me about it" in session "Ada"
    And the orchestrator replies "CLARIFICATION"
    And clarification replies "What topic?"
    And the user says "What is RAG?" in session "Grace"
    And the orchestrator replies "RESEARCH"
    And research replies "It retrieves before it generates."
    And synthesis decides answer "It retrieves first." and confidence 0.8
    Then the orchestrator received:
      | messages            | have one item |
      | last agent          | null          |
      | clarification count | 0             |
      | iteration           | 0             |
    And the history of the orchestrator is:
      | user | User: What is RAG? |

    When the user says "The paper of Zhang et al." in session "Ada"
    And research replies "Found 5 results."
    And synthesis decides answer "It is about accuracy." and confidence 0.7
    Then the orchestrator was not asked
    And the history of research is:
      | user      | Tell me about it          |
      | assistant | What topic?               |
      | user      | The paper of Zhang et al. |

  Scenario: The conversation is saved after every step
    When the user says "Tell me about it" in session "Ada"
    And the orchestrator replies "CLARIFICATION"
    And clarification replies "What topic?"
    Then these events happened in order, among others:
      | kind            | agent         | session |
      | AgentFinished   | orchestrator  | Ada     |
      | CheckpointSaved | orchestrator  | Ada     |
      | AgentStarted    | clarification | Ada     |
      | CheckpointSaved | clarification | Ada     |
      | TurnFinished    |               | Ada     |
      | CheckpointSaved |               | Ada     |

  Scenario: The answer to the last question is gone when the next one is asked
    When the user says "What is the accuracy?"
    And the orchestrator replies "RESEARCH"
    And research replies "Found 5 results."
    And synthesis decides answer "87.2 %" and confidence 0.95
    And the user says "And the other one?"
    And the orchestrator replies "CLARIFICATION"
    And clarification replies "Which other one?"
    Then the orchestrator received:
      | final answer     | null |
      | confidence score | null |
      | iteration        | 3    |
    And in turn 1, the state's final answer is "87.2 %"
