Feature: The life of a task
  A task starts, is worked on, and ends. The start puts the request in order, the work is done by a
  model and its tools, the exit lets only a result pass; and every stage leaves a record.

  Background:
    Given the pipeline "lifecycle"

  Rule: A task goes from stage to stage

    Background:
      Given search_codebase returns the list "auth.py" after 100 ms
      When the user sends request "Find  AUTHENTICATION code"
      And process calls search_codebase with query "authentication" after 200 ms
      And process decides result "found auth.py" after 300 ms

    Scenario: What one stage puts out is what the next one gets
      Then these agents ran in order: start, process and exit
      And the input of start has exactly request "Find  AUTHENTICATION code"
      And the output of start has exactly request "find authentication code"
      And the input of process has exactly request "find authentication code"
      And the context of process includes "find authentication code"
      And process received:
        | current output | request | find authentication code |
      And exit received:
        | current output | result | found auth.py |
      And the reply has result "found auth.py"

    Scenario: The work is done by a model and its tools, and by nobody else
      Then start was not asked
      And process was asked 2 times
      And exit was not asked
      And process called search_codebase with query "authentication"

    Scenario: Every stage leaves a complete record
      Then the state has these stages:
        | node    | input                                   | output                                 | tool_calls  | took_ms |
        | start   | has request "Find  AUTHENTICATION code" | has request "find authentication code" | is empty    | 0       |
        | process | has request "find authentication code"  | has result "found auth.py"             | has 1 items | 600     |
        | exit    | has result "found auth.py"              | has result "found auth.py"             | is empty    | 0       |

    Scenario: The next task begins anew
      When the user sends request "find the logout"
      And process decides result "found logout.py"
      Then start received:
        | current output | null      |
        | stages         | are empty |
      And the state has three stages

  Rule: The doors are guarded

    Scenario: A task without a request does not start
      When the user sends question "Where is the login?"
      Then the turn ends with the error InputInvalid that says "request"
      And process was not asked
      And the state has no stages

    Scenario: A task whose request says nothing does not start
      When the user sends request ""
      Then the turn ends with the error InputInvalid that says "request"
      And process was not asked

    Scenario: What is no result does not leave
      When the user sends request "find the login"
      And process replies "I found nothing."
      Then the turn ends with the error InputInvalid that says "'exit'"
      And there is no reply
