Feature: The desk
  Background:
    Given the pipeline "desk.pipeline.yaml"

  Scenario: The whole desk
    Given the seed 7
    And the state has town "Oslo"
    And the state has these notes:
      | agent | text        | at                   |
      | clerk | Likes trams | 2026-01-04T08:00:00Z |
    And look_up returns:
      | age | 44 |
    When the user says:
      """
      Who is
      Ada?
      """
    And the clerk calls look_up with name "Ada"
    And the clerk replies "Ada is 44."
    Then these agents ran in order: clerk
    And the clerk called look_up with name "Ada"
    And the head clerk was not asked
    And the reply is "Ada is 44."
    And the reply contains "44"
    And the context of the clerk includes "Likes trams"
    And nobody handed off

    Given the head clerk replies "At nine."
    When the user says "When do you open?"
    And the clerk hands off to the head clerk with urgent false
    Then these agents ran in order: clerk and head clerk
    And the clerk handed off to the head clerk with:
      | urgent | false |
    And the context of the head clerk has the sections instructions, notes, handoff, history and current_message
    And the context of the head clerk excludes tool messages
    And the context of the head clerk excludes "44 years"
    And the history of the head clerk is:
      | user      | Who is\nAda? |
      | assistant | Ada is 44.   |
    And the state has town "Oslo"
    And the state has 4 messages
    And the reply is "At nine."

    When the user says "And Bo?"
    And the clerk calls look_up with:
      | name | Bo |
    And look_up fails with "nobody of that name"
    And the clerk hands off to the head clerk with:
      | urgent | true |
    And the head clerk replies:
      """
      Bo is new.
      """
    Then the clerk called look_up
    And the clerk handed off to the head clerk

  Scenario: Tools answer one call after the other, and stand for later turns
    Given look_up returns age 44
    When the user says "Ages?"
    And the clerk calls look_up with name "Ada"
    And the clerk calls look_up with name "Bo"
    And the clerk replies "Done."
    And look_up returns age 1
    And look_up fails with "nobody"
    Then the clerk called look_up and got a result that has age 1
    And the clerk called look_up and got the error "nobody"

    When the user says "Ada again?"
    And the clerk calls look_up with name "Ada"
    And the clerk replies "44."
    Then the clerk called look_up and got a result that has age 44

    When the user says "Thanks."
    And the clerk replies "Bye."
    Then the reply is "Bye."

  Scenario: Tools answer by their arguments, with a delay
    Given look_up returns age 1 for name "Ada"
    And look_up returns age 2 for name "Bo" after 5 ms
    When the user says "Ages?"
    And the clerk calls at the same time:
      | tool    | name |
      | look_up | Bo   |
      | look_up | Ada  |
    And the clerk replies "Done." after 500 ms if it is shown "Ages?"
    Then these tools were called in order:
      | agent | tool    | name | result    |
      | clerk | look_up | Bo   | has age 2 |
      | clerk | look_up | Ada  | has age 1 |
    And the clerk called look_up with name that is one of "Ada" or "Bo"
    And the clerk called look_up with exactly:
      | name | Ada |

  Scenario: Results of every form
    When the user says "Count"
    And the clerk calls count
    And the clerk calls count
    And the clerk calls count
    And the clerk calls count
    And the clerk replies "Done."
    And count returns 8
    And count returns the list 1 and 2
    And count returns:
      """
      many
      """
    And count returns these items:
      | name | age |
      | Ada  | 44  |
    Then the tool calls have an item with result that is 8
    And the tool calls have an item with result that is the list 1 and 2
    And the tool calls have an item with result "many"
    And the clerk called count and got a result that has only items with age 44

  Scenario: Shared files, time, seed and limits
    Given what "ada.yaml" says
    And the seed 7
    And the time is 2026-02-03 04:05
    And at most 3 model calls per run
    And the lint CTX-11 is off because "it is a test"
    When the user says "Ada?"
    And the clerk calls look_up with:
      | name | Ada |
    And the clerk replies "44."
    Then the clerk called look_up and got a result that has age 44
    And in the whole conversation, the event RunStarted happened with seed 7

  Scenario: The model fails
    When the user says "Hello"
    And the model of the clerk fails with status 418 and "I am a teapot"
    Then the turn ends with the error server_error that says "teapot"
    And there is no reply

  Scenario: The model fails on a call that is planned to fail
    Given the model of the clerk fails with overloaded on its call 1 and may be asked again after 2 s
    When the user says "Hello"
    And the clerk replies "Good day."
    Then the turn ends with the error overloaded
    And the event FaultInjected happened with fault "overloaded on call 1"
    And the event ModelFailed happened with retry_after_ms 2000
    When the user says "Hello?"
    And the clerk replies "Good day."
    Then the reply is "Good day."

  Scenario: The model fails on a call in the turn that is told
    When the user says "Hello"
    And the clerk replies "Good day."
    And the model of the clerk fails with timeout on its call 1
    Then the turn ends with the error timeout

  Scenario: A result of one turn must be used there, one of every turn may wait
    Given look_up returns age 44
    When the user says "Hello"
    And the clerk replies "Hello."
    And count returns 1
    Then the lint RUN-01 is found
    When the user says "And who is Ada?"
    And the clerk calls look_up with name "Ada"
    And the clerk replies "Ada is 44."
    Then the reply is "Ada is 44."

  Scenario: Keys of a scenario file for which there is no phrase
    Given the scenario has:
      """
      schedule: fifo
      """
    When the user says "Hello"
    And the clerk replies "Good day."
    And the turn has:
      """
      faults: [{agent: clerk, call: 1, error: timeout}]
      """
    Then the turn ends with the error timeout

  Scenario: A line in YAML, and claims in YAML
    When the user says "Hello"
    And the clerk answers with this line:
      """
      text: One moment.
      calls: [count: {}]
      """
    And the clerk answers with this line:
      """
      {json: {kind: greeting}}
      """
    And count returns 1
    Then all of this holds:
      """
      agents: [clerk]
      context: {"clerk[1]": {includes: [One moment.], tokens: {$gt: 1}}}
      model_calls: {clerk: 2, head_clerk: 0}
      reply: {kind: greeting}
      """
    And the reply fits the schema Ticket

  Scenario: Two conversations
    When the user says "I am Ada" in session "phone" in project "Ada"
    And the clerk replies "Hello Ada."
    And the user says in session "web" in project "Bo":
      """
      I am Bo
      """
    And the clerk replies "Hello Bo."
    And the user says "And again" in session "phone" in project "Ada"
    And the clerk replies "Hello again."
    Then the history of the clerk is:
      | user      | I am Ada   |
      | assistant | Hello Ada. |
    And in turn 2, the context of the clerk excludes "Ada"
    And in turn 2, the context of the clerk has no section history
    And in the whole conversation, the clerk was asked 3 times

  Scenario: A new process
    Given the state has town "Oslo"
    When the user says "I am Ada"
    And the clerk replies "Hello Ada."
    And a new process takes over
    And the user waits "2 h"
    And the user says "Who am I?"
    And the clerk replies "Ada."
    Then the context of the clerk includes a user message that is "I am Ada"
    And the event CheckpointRestored happened
    And the event TurnStarted happened with at 7200000
    And at the end, the state's town is "Oslo"

  Scenario: A question back
    When the user says "Pizza"
    And the clerk asks the user "Which one?"
    Then the user is asked "Which one?"

    When the user answers "Salami"
    And the clerk replies "Coming."
    Then the reply is "Coming."
    And the user is asked nothing
    And there is no error

  Scenario: A user that is a program
    When the user sends:
      | order | pizza | salami |
      | order | size  | 30     |
    And the clerk replies "Coming."
    Then the input of the clerk has order that has exactly pizza "salami" and size 30

  Scenario: Contexts
    Given the state has these notes:
      | agent | text        | at                   |
      | clerk | Likes trams | 2026-01-04T08:00:00Z |
      | clerk | Likes ships | 2026-01-03T08:00:00Z |
    And the state has last_visit "May"
    When the user says "Hello"
    And the clerk calls count
    And the clerk replies "Good day."
    And count returns 7
    Then the context of the clerk is exactly:
      | system | You are a clerk.       |
      | system | contains "Likes trams" |
      | user   | Hello                  |
    And the context of the clerk has 3 messages
    And the context of the clerk has at least 5 tokens
    And the tokens in the context of the clerk are between 5 and 50
    And every context of the clerk includes "Hello"
    And the second context of the clerk includes a tool message that contains "7"
    And the last context of the clerk includes these messages:
      | role | content |
      | user | Hello   |
      | tool | 7       |
    And the context of the clerk excludes messages from the head clerk
    And the context of the clerk has a section current message
    And the current message in the last context of the clerk has 1 items
    And the context of the clerk offers the tools count and look_up
    And nothing of the context of the clerk comes from the head clerk
    And "Likes ships" was left out of the context of the clerk by max
    And nothing was dropped from the context of the clerk
    And the settings of the context of the clerk are empty
    And the clerk received the last visit "May"
    And the clerk received no phone
    And what the clerk wrote has messages that have 1 items
    And the output of the clerk is "Good day."
    And the state has two notes
    And the state's notes have an item with text "Likes trams"
    And the run satisfies "tests.functions:is_short"
    And one agent started
    And the agents that ran are the list "clerk"

  Scenario: Handoffs
    When the user says "Hello"
    And the clerk hands off to the head clerk as hard question asking "Who?" with urgent true
    And the head clerk replies "Me."
    Then these agents ran in order:
      | clerk      |
      | head clerk |
    And the clerk ran before the head clerk
    And the head clerk ran
    And these handoffs were requested:
      | from  | to         | type          | query | urgent |
      | clerk | head clerk | hard_question | Who?  | true   |
    And the clerk handed off to the head clerk as hard question asking "Who?" with exactly:
      | urgent | true |
    And the handoffs have 1 items
    And no tool was called
    And the clerk called no tool
    And these events happened in order, among others:
      | kind             | agent      |
      | HandoffRequested |            |
      | AgentStarted     | head_clerk |
    And the event LimitReached did not happen

  Scenario: A lint that is meant
    When the user says "Hello"
    And the clerk hands off to the head clerk with wrong 1
    And the clerk replies "Sorry."
    Then the handoff from the clerk to the head clerk was rejected because its reason contains "urgent"
    And the head clerk did not run

  Rule: The clerk is polite
    Background:
      When the user says "Hello"
      And the clerk replies "Good day."

    Scenario Outline: Words
      Then the reply <condition>
      And the history of the clerk <other>

      Examples: those that hold
        | condition           | other     |
        | starts with "Good"  | is empty  |
        | is one of "Good day." or "Hello" | has no items |
