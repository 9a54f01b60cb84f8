Feature: Asking back instead of guessing
  A question that is too vague is asked back, and it is remembered what was missing. Whoever answers
  is not sorted a second time; whoever asks something new is.

  Rule: The answer is the user's next message

    Background:
      Given the pipeline "research_assistant"

    Scenario: What is missing is remembered until the user has said it
      When the user says "How accurate is it?"
      And the orchestrator decides:
        | decision | CLARIFICATION              |
        | missing  | ["the paper", "the table"] |
      And clarification replies "Which paper, and which table?"
      Then these agents ran in order: orchestrator and clarification
      And the shared section of clarification contains "the paper"
      And the state's missing context is the list "the paper" and "the table"
      And the state's clarification count is 1

      When the user says "Zhang et al., table 2"
      And research replies "Found it."
      And synthesis decides answer "87.2 %" and confidence 0.95
      Then the state's missing context is empty
      And the state has clarification_needed false and clarification_count 0

    Scenario: Clarification speaks, and waits
      When the user says "Tell me about it"
      And the orchestrator replies "I choose CLARIFICATION: no topic is named."
      And clarification replies "What topic?"
      Then these agents ran in order: orchestrator and clarification
      And the orchestrator wrote:
        | next agent           | clarification |
        | clarification needed | true          |
        | clarification count  | 1             |
      And what clarification wrote has messages that have one item
      And the state's next agent is "END"
      And the state's final answer is null
      And the state's confidence score is null

      When the user says "RAG"
      And research replies "It retrieves before it generates."
      And synthesis decides answer "It retrieves first." and confidence 0.8
      Then the orchestrator was not asked
      And the orchestrator received:
        | next agent           | orchestrator  |
        | last agent           | clarification |
        | clarification needed | true          |
        | iteration            | 2             |
      And research received the clarification needed false
      And research received the clarification count 0
      And the state's iteration is 5

    Scenario: A second vague question is counted on top
      Given the state has clarification_count 1
      When the user says "Tell me about it"
      And the orchestrator replies "CLARIFICATION"
      And clarification replies "What topic?"
      Then the state's clarification count is 2

    Scenario: Who was not asked back has not answered
      Given the state has clarification_needed true
      When the user says "What is RAG?"
      And the orchestrator replies "The question is clear."
      And research replies "It retrieves before it generates."
      And synthesis decides answer "It retrieves first." and confidence 0.8
      Then these agents ran in order: orchestrator, research and synthesis
      And the orchestrator was asked once
      And the orchestrator wrote the clarification needed false

    Scenario: A question after the answer is sorted again
      When the user says "Tell me about it"
      And the orchestrator replies "CLARIFICATION"
      And clarification replies "What topic?"
      And the user says "RAG"
      And research replies "It retrieves before it generates."
      And synthesis decides answer "It retrieves first." and confidence 0.8
      And the user says "And the other thing?"
      And the orchestrator replies "CLARIFICATION"
      And clarification replies "Which other thing?"
      Then the orchestrator was asked once
      And these agents ran in order: orchestrator and clarification
      And the state's clarification count is 1

  Rule: The answer may also come in the middle of the work

    Background:
      Given the pipeline "clarification_as_interrupt"
      When the user says "Tell me about it"
      And the orchestrator replies "CLARIFICATION"
      And clarification asks the user "What topic are you asking about?"

    Scenario: The work waits for the answer, as often as it takes
      Then the user is asked "What topic are you asking about?"
      And there is no reply

      When the user answers "Zhang et al. paper"
      And clarification asks the user "Which table of it?"
      Then these agents ran in order: clarification
      And the user is asked "Which table of it?"

      When the user answers "Table 2"
      And clarification replies "Table 2 of Zhang et al."
      And research replies "Found it."
      And synthesis replies "The accuracy is 87.2 %."
      Then these agents ran in order: clarification, research and synthesis
      And the user is asked nothing
      And the shared section of research contains "Table 2 of Zhang et al."
      And the state's final answer is "The accuracy is 87.2 %."
      And in the whole conversation, the orchestrator was asked once

    Scenario: A new process knows what was asked, and by whom
      When a new process takes over
      And the user answers "Zhang et al. paper"
      And clarification replies "The Zhang et al. paper"
      And research replies "Found it."
      And synthesis replies "The accuracy is 87.2 %."
      Then these agents ran in order: clarification, research and synthesis
      And the orchestrator was not asked
      And clarification wrote:
        | context | topic | The Zhang et al. paper |

    Scenario: Who changes the subject begins anew
      When the user says "Never mind. What is RAG?"
      And the orchestrator replies "RESEARCH"
      And research replies "It retrieves before it generates."
      And synthesis replies "It retrieves first."
      Then these agents ran in order: orchestrator, research and synthesis
      And the user is asked nothing
      And the reply is "It retrieves first."
