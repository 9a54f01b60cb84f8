Feature: From a question to its answer
  A question wanders from agent to agent. Whoever had it leaves a note for the next one: who it was,
  who comes next, what was found, and that one more step was made. Nobody has to guess.

  Background:
    Given the pipeline "research_assistant"

  Rule: Everybody leaves what the next one needs

    Background:
      Given the state has session_id "abc123"
      And pdf_retrieval returns the list "Table 2"
      When the user says "What is the accuracy?"
      And the orchestrator replies "RESEARCH"
      And research calls pdf_retrieval with q "accuracy"
      And research replies "Found 5 results."
      And synthesis decides answer "87.2 %" and confidence 0.95

    Scenario: A conversation begins with nothing but the question
      Then the orchestrator received exactly:
        | messages             | have one item |
        | session id           | abc123        |
        | next agent           | orchestrator  |
        | last agent           | null          |
        | clarification needed | false         |
        | clarification count  | 0             |
        | missing context      | is empty      |
        | context              | is empty      |
        | iteration            | 0             |
        | final answer         | null          |
        | confidence score     | null          |

    Scenario: The next question is asked in the same session
      When the user says "Who says so?"
      And the orchestrator replies "RESEARCH"
      And research replies "Zhang et al. do."
      And synthesis decides answer "Zhang et al." and confidence 0.9
      Then the orchestrator received:
        | session id | abc123       |                             |
        | last agent | synthesis    |                             |
        | context    | tool_history | is the list "pdf_retrieval" |
        | context    | final_output | Found 5 results.            |

    Scenario: The orchestrator says that research is next
      Then the orchestrator wrote:
        | next agent | research     |
        | last agent | orchestrator |
        | iteration  | 1            |
      And research received:
        | next agent | research     |
        | last agent | orchestrator |
        | iteration  | 1            |
      And the event RouteChosen happened with agent "orchestrator" and targets that are the list "research"

    Scenario: Research leaves its findings, and how it came by them
      Then research was asked 2 times
      And research wrote:
        | context    | observations | are the list "Used tool: pdf_retrieval" |
        | context    | tool_history | are the list "pdf_retrieval"            |
        | context    | final_output | Found 5 results.                        |
        | next agent | synthesis    |                                         |
        | last agent | research     |                                         |
      And what research wrote has messages that have one item

    Scenario: Synthesis reads the findings beside the question, and closes the case
      Then synthesis received:
        | messages   | have 2 items |
        | session id | abc123       |
        | next agent | synthesis    |
        | last agent | research     |
        | iteration  | 2            |
      And the shared section of synthesis contains "Used tool: pdf_retrieval" and "Found 5 results."
      And the current message of synthesis is:
        | user | What is the accuracy? |
      And synthesis wrote the final answer "87.2 %"
      And synthesis wrote the confidence score 0.95
      And the state's next agent is "END"
      And the state's last agent is "synthesis"
      And the state's iteration is 3

  Rule: What is found and what is said is kept, and little of it is read

    Scenario: What is found is added to what was there
      Given the state has this context:
        | paper | zhang.pdf |
      When the user says "What is the accuracy?"
      And the orchestrator replies "RESEARCH"
      And research replies "Found 5 results."
      And synthesis decides answer "87.2 %" and confidence 0.95
      Then the state's context has paper "zhang.pdf" and final_output "Found 5 results."

    Scenario: Who needs no tool says so
      When the user says "What is RAG?"
      And the orchestrator replies "RESEARCH"
      And research replies "It retrieves before it generates."
      And synthesis decides answer "It retrieves first." and confidence 0.4
      Then research was asked once
      And research wrote:
        | context | observations | is empty                          |
        | context | tool_history | is empty                          |
        | context | final_output | It retrieves before it generates. |

    Scenario: Two tools are asked one after the other, and only the last word is kept
      Given pdf_retrieval returns the list "Nothing"
      And web_search returns the list "A survey"
      When the user says "What is RAG?"
      And the orchestrator replies "RESEARCH"
      And research calls pdf_retrieval with q "RAG"
      And research calls web_search with q "retrieval augmented generation"
      And research replies "It retrieves before it generates."
      And synthesis decides answer "It retrieves first." and confidence 0.8
      Then these tools were called in order:
        | agent    | tool          | q                              |
        | research | pdf_retrieval | RAG                            |
        | research | web_search    | retrieval augmented generation |
      And research was asked 3 times
      And the third context of research includes a tool message that contains "A survey"
      And the messages of research have 5 items
      And the state's messages have 2 items
      And the state's messages have only items that have calls that are empty

    Scenario: The last ten messages are read, and all of them are kept
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
        | user      | Question 6 |
        | assistant | Answer 6   |
      When the user says "And question 7?"
      And the orchestrator replies "RESEARCH"
      And research replies "Found it."
      And synthesis decides answer "7" and confidence 0.5
      Then the history of the orchestrator has one item
      And the history of the orchestrator contains "AI: Answer 2" and "User: And question 7?"
      And these messages were dropped from the context of the orchestrator:
        | user      | Question 1 |
        | assistant | Answer 1   |
        | user      | Question 2 |
      And the history of research has 10 items
      And the context of research excludes "Question 2"
      And what the orchestrator received has messages that have 13 items

    Scenario: Who asks back reads the last ten messages, too
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
        | user      | Question 6 |
        | assistant | Answer 6   |
      When the user says "And that one?"
      And the orchestrator replies "CLARIFICATION"
      And clarification replies "Which one?"
      Then the history of clarification has 10 items
      And the context of clarification excludes "Question 2"
