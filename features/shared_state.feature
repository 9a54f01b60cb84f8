Feature: What the coaches share, and what each keeps to itself
  Every coach finds the same conversation, the same decisions and the same user. What a coach needs
  for itself alone ends with its answer.

  Background:
    Given the pipeline "fitness_coach"

  Rule: The conversation belongs to all

    Background:
      Given the state has session_id "s-17" and conversation_id "c-42"
      And the state has user_timezone "Europe/Berlin"
      And the state has this auth_ctx:
        | user_id     | u1                |
        | permissions | ["read", "write"] |
      When the user says "I had porridge for breakfast"
      And the router decides primary_agent "nutrition" and complexity "simple"
      And nutrition replies "A good start."
      And the user says "I swam for half an hour"
      And the router decides primary_agent "workout_coach" and complexity "simple"
      And the workout coach replies "Well done."

    Scenario: The second coach finds everything that the first one found
      Then the workout coach received exactly:
        | messages                | have 3 items                                        |
        | router decision         | has primary_agent "workout_coach" and complexity "simple" |
        | routing history         | has 2 items                                         |
        | agent outputs           | are empty                                           |
        | auth ctx                | {"user_id": "u1", "permissions": ["read", "write"]} |
        | session id              | s-17                                                |
        | conversation id         | c-42                                                |
        | timezone                | UTC                                                 |
        | user timezone           | Europe/Berlin                                       |
        | history items           | are empty                                           |
        | usage tracker           | has 3 items                                         |
        | handoff context         | null                                                |
        | total execution time ms | 0                                                   |
        | errors                  | are empty                                           |
        | notes                   | are empty                                           |
        | memories                | are empty                                           |

    Scenario: The third turn still knows the first
      When the user says "What shall I cook tonight?"
      And the router decides primary_agent "nutrition" and complexity "simple"
      And nutrition replies "Salmon with rice."
      Then the history of nutrition is:
        | user      | I had porridge for breakfast |
        | assistant | A good start.                |
        | user      | I swam for half an hour      |
        | assistant | Well done.                   |
      And the state's messages are these items:
        | user      | I had porridge for breakfast |
        | assistant | A good start.                |
        | user      | I swam for half an hour      |
        | assistant | Well done.                   |
        | user      | What shall I cook tonight?   |
        | assistant | Salmon with rice.            |

  Rule: The router's decisions are remembered

    Scenario: A decision says who, how difficult, when, and what else
      When the user says "Compare my runs in May with what I ate"
      And the router decides:
        | primary_agent    | workout_coach                                |
        | complexity       | complex                                      |
        | time_ranges      | [{"from": "2025-05-01", "to": "2025-05-31"}] |
        | secondary_topics | ["nutrition"]                                |
      And the workout coach replies "You ran more on days with a big breakfast."
      Then the workout coach received:
        | router decision | primary_agent    | workout_coach                                |
        | router decision | complexity       | is one of "simple" or "complex"              |
        | router decision | time_ranges      | [{"from": "2025-05-01", "to": "2025-05-31"}] |
        | router decision | secondary_topics | ["nutrition"]                                |

    Scenario: Every decision is added
      When the user says "I had porridge for breakfast"
      And the router decides primary_agent "nutrition" and complexity "simple"
      And nutrition replies "A good start."
      And the user says "Is my training plan balanced?"
      And the router decides primary_agent "workout_coach" and complexity "complex"
      And the workout coach replies "It is."
      Then the router received the router decision null
      And the state has these routing_history:
        | primary_agent | complexity |
        | nutrition     | simple     |
        | workout_coach | complex    |

    Scenario: Ten decisions are kept
      Given the state has these routing_history:
        | primary_agent | complexity | about       |
        | nutrition     | simple     | decision 1  |
        | nutrition     | simple     | decision 2  |
        | nutrition     | simple     | decision 3  |
        | nutrition     | simple     | decision 4  |
        | nutrition     | simple     | decision 5  |
        | nutrition     | simple     | decision 6  |
        | nutrition     | simple     | decision 7  |
        | nutrition     | simple     | decision 8  |
        | nutrition     | simple     | decision 9  |
        | nutrition     | simple     | decision 10 |
      When the user says "I swam for half an hour"
      And the router decides primary_agent "workout_coach" and complexity "simple"
      And the workout coach replies "Well done."
      Then the state has 10 routing_history
      And the state's routing history does not contain "decision 1\""
      And the state's routing history contains "decision 2"

    Scenario: The router alone looks into the stored conversation
      Given the state has these history_items:
        | id     | text                      |
        | item-1 | We agreed on a squat plan |
      When the user says "I had porridge for breakfast"
      And the router decides primary_agent "nutrition" and complexity "simple"
      And nutrition replies "A good start."
      Then the context of the router includes "squat plan"
      And the context of nutrition excludes "squat plan"
      And the instructions of nutrition contain "You are a nutrition coach."

      When the user says "And an apple"
      And the router decides primary_agent "nutrition" and complexity "simple"
      And nutrition replies "Even better."
      Then the context of the router includes "squat plan"

  Rule: What is for one answer ends with it

    Scenario: The next coach does not see what the first had in mind
      Given the state has these memories:
        | id    | text               | score | at                   |
        | mem-1 | Ran 4 miles in May | 0.91  | 2025-05-02T10:00:00Z |
      And log_meal returns kcal 800
      When the user says "I ate pizza, then ran 5 miles"
      And the router decides:
        | primary_agent | ["nutrition", "workout_coach"] |
        | complexity    | complex                        |
      And nutrition calls log_meal with food "pizza"
      And nutrition replies "Logged your pizza."
      And the workout coach replies "Great run!"
      Then nutrition wrote:
        | memory ids used    | ["mem-1"]    |
        | current phase      | responding   |
        | pending tool calls | ["log_meal"] |
      And the workout coach received no memory ids used
      And the workout coach received no current phase
      And the workout coach received no pending tool calls
