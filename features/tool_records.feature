Feature: Every use of a tool is on record
  What a tool was asked and what it answered, when, and whether it failed: it stands in the record of
  the node that asked, and the next node can read it.

  Background:
    Given the pipeline "tools"
    And the time is 2026-01-05 09:00

  Scenario: Two searches are on record, and the next node reads both
    When the user sends request "Where is the login?"
    And search calls search_codebase with query "authenticate"
    And search calls search_codebase with query "session"
    And search decides result "Found 2 files"
    And search_codebase returns the list "src/auth.py"
    And search_codebase returns the list "src/login.py"
    And read decides result "Nothing to read"
    And analyze decides result "It logs users in."
    Then these tools were called in order:
      | agent  | tool            | query        | result                     |
      | search | search_codebase | authenticate | is the list "src/auth.py"  |
      | search | search_codebase | session      | is the list "src/login.py" |
    And read received:
      | current output | result     | Found 2 files |
      | current output | tool_calls | have 2 items  |
    And the upstream of read contains "Found 2 files" and "src/auth.py"
    And the upstream of read contains "session" and "src/login.py"

  Scenario: A record says when, and how it is called
    Given search_codebase returns the list "src/auth.py" after 1500 ms
    When the user sends request "Where is the login?"
    And search calls search_codebase with query "authenticate" after 400 ms
    And search decides result "Found 1 file"
    And read decides result "Nothing to read"
    And analyze decides result "It logs users in."
    Then search wrote:
      | current output | result     | Found 1 file                       |
      | current output | tool_calls | contain "2026-01-05T09:00:01.900Z" |
    And what search wrote has current_output that has tool_calls that have only items with tool "search_codebase" and error null and args that have query "authenticate"

  Scenario: A tool that is there answers by itself
    When the user sends request "Where is the login?"
    And search decides result "Found nothing"
    And read calls read_file with path "src/auth.py"
    And read decides result "Read a file"
    And analyze decides result "It logs users in."
    Then read called read_file and got a result that is "def log_in(user): ..."

  Scenario: A failure is on record, and the node is told
    Given search_codebase fails with "the index is down"
    When the user sends request "Where is the login?"
    And search calls search_codebase with query "authenticate"
    And search decides result "The index is down"
    And read calls read_file with path "src/nowhere.py"
    And read decides result "There is no such file"
    And analyze decides result "Nothing to say."
    Then search called search_codebase and got the error "the index is down"
    And read called read_file and got the error "FileNotFoundError"
    And the second context of search includes a tool message that contains "the index is down"
    And what search wrote has current_output that has tool_calls that have only items with error "the index is down"

  Scenario: Nonsense is a failure too
    Given search_codebase returns the invalid "3 files"
    When the user sends request "Where is the login?"
    And search calls search_codebase with query "authenticate"
    And search decides result "The tool answers nonsense"
    And read decides result "Nothing to read"
    And analyze decides result "Nothing to say."
    Then search called search_codebase and got the error "array"
    And the event ToolFailed happened with agent "search"

  Scenario: Each node is offered its own tools
    When the user sends request "Where is the login?"
    And search decides result "Found nothing"
    And read decides result "Nothing to read"
    And analyze decides result "Nothing to say."
    Then the context of search offers the tools search_codebase
    And the context of read offers the tools read_file
    And the context of analyze offers no tools
    And no tool was called
