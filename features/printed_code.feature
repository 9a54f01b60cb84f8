Feature: A document's code does what its words say
  The document of the research assistant shows some code. As it is printed, it changes what belongs to
  all, forgets what was said, or does not run. As it is meant, it does none of that.

  Background:
    Given "langchain-core>=1.7" is installed
    And "langgraph>=1.2" is installed
    And "langgraph-checkpoint-sqlite>=3.1" is installed
    And the pipeline "as_meant"

  Scenario: An agent gives back what is new, and leaves what it was given
    Given the state has snippet "execute"
    And the state has this context:
      | paper | zhang.pdf |
    When the user says "What is the accuracy?"
    Then execute wrote:
      | next agent | synthesis |                                      |
      | context    | result    | starts with "about What is the accu" |
      | iteration  | 1         |                                      |
    And the event AgentFinished happened with agent "execute" and changed_in_place that is empty
    And the state's context has paper "zhang.pdf"

  Scenario: Whoever reads the last ten messages leaves the others where they are
    Given the state has snippet "format"
    And the state has these messages:
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
    When the user says "And question 6?"
    Then the event AgentFinished happened with agent "format" and changed_in_place that is empty
    And the state has 11 messages
    And the reply ends with "User: And question 6?"

  Scenario: Of all that was said on the way, the answer is kept
    Given the state has snippet "final_message"
    When the user says "What is the accuracy?"
    Then the state's messages are these items:
      | user      | What is the accuracy? |
      | assistant | Found 5 results       |

  Rule: A second question goes on with the conversation

    Background:
      Given the lint RUN-02 is off because "the library runs the nodes in threads of its own, one after the other"

    Scenario Outline: <snippet> knows the first question, and begins without an answer
      Given the state has snippet "<snippet>"
      When the user says "What is RAG?"
      And the user says "Who proposed it?"
      Then the state's thread has messages that have 4 items

      Examples:
        | snippet      |
        | follow_up    |
        | checkpointer |
