Feature: A conversation survives a restart
  Servers are replaced while people think about their answer. A new process knows what was said and
  what was asked, from the store alone, and goes on as if nothing had happened.

  Scenario: The answer comes after the restart
    Given the pipeline "research_assistant"
    And pdf_retrieval returns the list "Table 2"
    When the user says "Tell me about it"
    And the orchestrator replies "CLARIFICATION"
    And clarification replies "What are you asking about?"
    And a new process takes over
    And the user says "The paper of Zhang et al."
    And research calls pdf_retrieval with q "Zhang"
    And research replies "Found one table."
    And synthesis decides answer "It has one table." and confidence 0.5
    Then these agents ran in order: orchestrator, research and synthesis
    And the orchestrator was not asked
    And the history of research is:
      | user      | Tell me about it           |
      | assistant | What are you asking about? |
      | user      | The paper of Zhang et al.  |
    And these events happened in order, among others:
      | kind               | agent        |
      | CheckpointRestored |              |
      | AgentStarted       | orchestrator |
    And at the end, the state has 4 messages

  Scenario: What was learned for the project is still known, the last task is not
    Given the pipeline "memory"
    When the user sends request "Add a second factor"
    And search decides:
      | for_the_task    | text | Logins are in auth.py.         |
      | for_the_task    | tags | ["code"]                       |
      | for_the_project | text | Users sign in with a password. |
      | for_the_project | tags | ["code"]                       |
    And decide replies "Ask for a code."
    And analyze replies "It takes a day."
    And a new process takes over
    And the user sends request "Now add a third one"
    And search replies "Nothing new."
    And decide replies "Ask for a fingerprint."
    And analyze replies "It takes a week."
    Then the recall of decide contains "Users sign in with a password."
    And the context of decide excludes "auth.py"
