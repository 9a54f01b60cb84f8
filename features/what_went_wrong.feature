Feature: What went wrong is told where it went wrong
  Nothing came out, a tool is missing, something is not known: each is told with the names of those
  whom it concerns, and the way of the data can be read step by step.

  Background:
    Given the pipeline "debugging"

  Scenario: A node that puts out nothing is named, and who misses it
    When the user sends request "find"
    And search answers nothing
    Then the turn ends with the error InputInvalid that says "'search'"
    And these agents ran in order: start and search

  Scenario: A tool that nobody answers for is named, and who called it
    When the user sends request "find"
    And search calls search_history with query "login"
    Then the turn ends with the error ToolMissing that says "'search_history'"

  Scenario: A tool that is there answers by itself
    When the user sends request "find the login"
    And search calls search_codebase with:
      | names | ["auth.py", "login.py"] |
      | pat   | log*                    |
    And search replies "login.py"
    And read replies "verify(password)"
    And analyze replies "It verifies passwords."
    Then search called search_codebase and got a result that is the list "login.py"

  Scenario: Data goes to the next node, and no further
    When the user sends request "find the login"
    And search replies "login.py"
    And read replies "verify(password)"
    And analyze replies "It verifies passwords."
    Then the input of read is "login.py"
    And the context of read excludes "find the login"

  Scenario: What is known, and what is kept from whom
    When the user sends request "find the login"
    And search replies "login.py"
    And read replies "verify(password)"
    And analyze replies "It verifies passwords."
    Then the recall of analyze contains "login.py"
    And "verify(password)" was left out of the context of analyze by scopes

    When the user sends request "find the tokens" in session "Tuesday"
    And search replies "auth.py"
    And read replies "sign(token)"
    And analyze replies "It signs tokens."
    Then the recall of analyze contains "login.py" and "auth.py"

  Scenario: The way of the data, step by step
    When the user sends request "find"
    And search decides files "a.py"
    And read decides content "pass"
    And analyze decides summary "empty"
    Then these events happened in order, among others:
      | kind          | agent   | input               | output              |
      | AgentStarted  | start   | has request "find"  |                     |
      | AgentFinished | start   |                     | has request "find"  |
      | AgentStarted  | search  | has request "find"  |                     |
      | AgentFinished | search  |                     | has files "a.py"    |
      | AgentStarted  | read    | has files "a.py"    |                     |
      | AgentFinished | read    |                     | has content "pass"  |
      | AgentStarted  | analyze | has content "pass"  |                     |
      | AgentFinished | analyze |                     | has summary "empty" |
      | AgentStarted  | exit    | has summary "empty" |                     |
