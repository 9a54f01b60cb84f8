Feature: Five nodes in a row
  A request is searched for, read, analysed and answered. Each node knows what the one before it found,
  and the project remembers what earlier tasks came to.

  Background:
    Given the pipeline "linear"

  Scenario: The request passes all five, in order
    Given search_codebase returns the list "auth.py" and "login.py"
    And read_file returns "sign(token)"
    When the user sends request "analyze auth module"
    And search_files calls search_codebase with query "auth"
    And search_files decides result "Found 2 files"
    And read_content calls read_file with path "auth.py"
    And read_content decides:
      | files | {"auth.py": "sign(token)"} |
    And generate_analysis replies "This module handles authentication with JWT."
    Then these agents ran in order: start, search_files, read_content, generate_analysis and exit
    And exit was not asked
    And the input of start has request "analyze auth module"
    And the input of read_content has result "Found 2 files"
    And the input of generate_analysis has the keys files
    And the reply is "This module handles authentication with JWT."

  Scenario: Who reads knows what the search found, and how
    Given search_codebase returns the list "auth.py" and "login.py"
    When the user sends request "analyze auth module"
    And search_files calls search_codebase with query "auth"
    And search_files decides result "Found 2 files"
    And read_content decides:
      | files | {"auth.py": "sign(token)"} |
    And generate_analysis replies "It signs tokens."
    Then the instructions of read_content are:
      | system | Read these files: ["auth.py", "login.py"] |
    And the recall of read_content contains "search_files:" and "Found 2 files"
    And the upstream of read_content contains "search_codebase" and "login.py"
    And the recall of generate_analysis contains "search_files:" and "read_content:"

  Scenario: The search is told of past tasks, and of what the project knows
    Given the state has these project_items:
      | text                | at                   |
      | Docs: auth uses JWT | 2026-01-02T00:00:00Z |
    When the user sends request "find the login"
    And search_files decides result "login.py"
    And read_content decides:
      | files | {"login.py": "verify(password)"} |
    And generate_analysis replies "It verifies passwords."
    And the user sends request "analyze auth module" in session "Tuesday"
    And search_files decides result "auth.py"
    And read_content decides:
      | files | {"auth.py": "sign(token)"} |
    And generate_analysis replies "It signs tokens."
    Then the recall of search_files contains "Docs: auth uses JWT" and "Past task: It verifies passwords."
    And the instructions of search_files are:
      | system | Find the files that the request is about. |
