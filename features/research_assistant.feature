Feature: A research assistant asks before it guesses
  A question that is too vague is asked back. Once it is clear, research looks it up, and an answer
  is written from what research found.

  Background:
    Given the pipeline "research_assistant"
    And pdf_retrieval returns the list "Table 2"

  Scenario: A clear question goes straight to research
    When the user says "How accurate is the method of Zhang et al.?"
    And the orchestrator replies "RESEARCH"
    And research calls pdf_retrieval with q "Zhang accuracy"
    And research replies "Table 2 says 87.2 %."
    And synthesis decides answer "87.2 %" and confidence 0.95
    Then these agents ran in order: orchestrator, research and synthesis
    And clarification was not asked
    And the shared section of synthesis contains "Table 2 says 87.2 %."
    And the state's final answer is "87.2 %"
    And the state's confidence score is between 0.9 and 1

  Scenario: A vague question is asked back, and the answer is not sorted again
    When the user says "Tell me about it"
    And the orchestrator replies "CLARIFICATION"
    And clarification replies "What are you asking about?"
    Then these agents ran in order: orchestrator and clarification
    And the reply ends with "?"
    And the state's final answer is null

    When the user says "The paper of Zhang et al."
    And research calls pdf_retrieval with q "Zhang"
    And research replies "Found one table."
    And synthesis decides answer "It has one table." and confidence 0.5
    Then the orchestrator was not asked
    And the orchestrator received the clarification count 1
    And the history of research is:
      | user      | Tell me about it           |
      | assistant | What are you asking about? |
      | user      | The paper of Zhang et al.  |
    And the state's clarification count is 0
    And in the whole conversation, clarification was asked once

  Scenario: Old questions are forgotten, one message at a time
    Given the state has these messages:
      | user      | Question 1 |
      | assistant | Answer 1   |
      | user      | Question 2 |
      | assistant | Answer 2   |
      | user      | Question 3 |
      | assistant | Answer 3   |
      | user      | Question 4 |
      | assistant | Answer 4   |
      | user      | Question 5 |
      | assistant | Answer 5   |
    When the user says "Question 6"
    And the orchestrator replies "RESEARCH"
    And research replies "Answer 6"
    And synthesis decides answer "Answer 6" and confidence 0.5
    Then these messages were dropped from the context of the orchestrator:
      | user | Question 1 |
    And the history of the orchestrator does not contain "Question 1"
    And the state has 12 messages
