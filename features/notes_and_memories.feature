Feature: What a coach is reminded of
  Before a coach answers it is shown the latest notes of all coaches and the memories that fit, in that
  order, each with a heading of its own.

  Background:
    Given the pipeline "fitness_coach"
    And the time is 2026-01-05 09:00

  Rule: Everything has its place

    Scenario: Prompt, notes, memories, other answers, history, message
      Given the state has these notes:
        | agent     | text                 | at                   |
        | nutrition | Prefers metric units | 2026-01-04T08:00:00Z |
      And the state has these memories:
        | id    | text               | score | at                   |
        | mem-1 | Ran 4 miles in May | 0.91  | 2025-05-02T10:00:00Z |
      When the user says "I swam for half an hour"
      And the router decides primary_agent "workout_coach" and complexity "simple"
      And the workout coach replies "Well done."
      And the user says "I ate pizza, then ran 5 miles"
      And the router decides:
        | primary_agent | ["nutrition", "workout_coach"] |
        | complexity    | complex                        |
      And nutrition replies "Logged your pizza."
      And the workout coach replies "Great run!"
      Then the context of the workout coach has the sections instructions, notes, memories, previous agents, history and current message
      And the context of the workout coach is exactly:
        | role      | content                         | section         |
        | system    | You are a workout coach.        | instructions    |
        | system    | contains "Prefers metric units" | notes           |
        | system    | contains "Ran 4 miles in May"   | memories        |
        | system    | contains "Logged your pizza."   | previous_agents |
        | user      | I swam for half an hour         | history         |
        | assistant | Well done.                      | history         |
        | assistant | Logged your pizza.              | history         |
        | user      | I ate pizza, then ran 5 miles   | current_message |

  Rule: Notes are the newest of the last three days

    Background:
      Given the router decides primary_agent "workout_coach" and complexity "simple"
      And the workout coach replies "Well done."

    Scenario: A note is forgotten after three days
      Given the state has these notes:
        | agent     | text                 | at                   |
        | nutrition | Skips breakfast      | 2026-01-02T08:59:00Z |
        | nutrition | Prefers metric units | 2026-01-02T09:01:00Z |
      When the user says "I swam for half an hour"
      Then the notes of the workout coach contain "Prefers metric units"
      And the context of the workout coach excludes "Skips breakfast"

    Scenario: Five notes are enough
      Given the state has these notes:
        | agent     | text       | at                   |
        | nutrition | note one   | 2026-01-04T01:00:00Z |
        | nutrition | note two   | 2026-01-04T02:00:00Z |
        | nutrition | note three | 2026-01-04T03:00:00Z |
        | nutrition | note four  | 2026-01-04T04:00:00Z |
        | nutrition | note five  | 2026-01-04T05:00:00Z |
        | nutrition | note six   | 2026-01-04T06:00:00Z |
      When the user says "I swam for half an hour"
      Then the notes of the workout coach contain "note two" and "note six"
      And the context of the workout coach excludes "note one"

    Scenario: A note says when it was made, and by whom
      Given the state has these notes:
        | agent         | text            | at                   |
        | workout_coach | Left knee hurts | 2026-01-05T08:00:00Z |
      When the user says "I swam for half an hour"
      Then the notes of the workout coach contain "[2026-01-05] (workout_coach): Left knee hurts"

  Rule: Memories are the best that fit

    Scenario: A memory that fits well enough is shown, under a heading
      Given the state has these memories:
        | id    | text               | score  | at                   |
        | mem-1 | Ran 4 miles in May | 0.79   | 2025-05-02T10:00:00Z |
        | mem-2 | Likes tea          | 0.7899 | 2025-05-03T10:00:00Z |
      When the user says "I swam for half an hour"
      And the router decides primary_agent "workout_coach" and complexity "simple"
      And the workout coach replies "Well done."
      Then the context of the workout coach includes a system message that is:
        """
        # Relevant Long-Term Memories
        - Ran 4 miles in May
        """
      And the context of the workout coach excludes "Likes tea"

    Scenario: Memories of another time are not asked for
      Given the state has these memories:
        | id    | text                | score | at                   |
        | mem-1 | Ran 4 miles in May  | 0.91  | 2025-05-02T10:00:00Z |
        | mem-2 | Ran 9 miles in July | 0.95  | 2025-07-02T10:00:00Z |
      When the user says "How did I run in May?"
      And the router decides:
        | primary_agent | workout_coach                                |
        | complexity    | simple                                       |
        | time_ranges   | [{"from": "2025-05-01", "to": "2025-05-31"}] |
      And the workout coach replies "You ran 4 miles."
      Then the memories of the workout coach contain "miles in May"
      And the context of the workout coach excludes "miles in July"

    Scenario: Twenty memories are enough, the best first
      Given the state has these memories:
        | id     | text     | score  | at                   |
        | mem-21 | memory U | 0.80   | 2025-05-01T10:00:00Z |
        | mem-1  | memory A | 0.9900 | 2025-05-01T10:00:00Z |
        | mem-2  | memory B | 0.9805 | 2025-05-01T10:00:00Z |
        | mem-3  | memory C | 0.9710 | 2025-05-01T10:00:00Z |
        | mem-4  | memory D | 0.9615 | 2025-05-01T10:00:00Z |
        | mem-5  | memory E | 0.9520 | 2025-05-01T10:00:00Z |
        | mem-6  | memory F | 0.9425 | 2025-05-01T10:00:00Z |
        | mem-7  | memory G | 0.9330 | 2025-05-01T10:00:00Z |
        | mem-8  | memory H | 0.9235 | 2025-05-01T10:00:00Z |
        | mem-9  | memory I | 0.9140 | 2025-05-01T10:00:00Z |
        | mem-10 | memory J | 0.9045 | 2025-05-01T10:00:00Z |
        | mem-11 | memory K | 0.8950 | 2025-05-01T10:00:00Z |
        | mem-12 | memory L | 0.8855 | 2025-05-01T10:00:00Z |
        | mem-13 | memory M | 0.8760 | 2025-05-01T10:00:00Z |
        | mem-14 | memory N | 0.8665 | 2025-05-01T10:00:00Z |
        | mem-15 | memory O | 0.8570 | 2025-05-01T10:00:00Z |
        | mem-16 | memory P | 0.8475 | 2025-05-01T10:00:00Z |
        | mem-17 | memory Q | 0.8380 | 2025-05-01T10:00:00Z |
        | mem-18 | memory R | 0.8285 | 2025-05-01T10:00:00Z |
        | mem-19 | memory S | 0.8190 | 2025-05-01T10:00:00Z |
        | mem-20 | memory T | 0.8095 | 2025-05-01T10:00:00Z |
      When the user says "I swam for half an hour"
      And the router decides primary_agent "workout_coach" and complexity "simple"
      And the workout coach replies "Well done."
      Then the context of the workout coach includes a system message that matches /memory A\s.*memory B\s/
      And the memories of the workout coach contain "memory A" and "memory T"
      And the context of the workout coach excludes "memory U"

    Scenario: Every question has the time that it asks for
      Given the state has these memories:
        | id    | text                | score | at                   |
        | mem-1 | Ran 4 miles in May  | 0.91  | 2025-05-02T10:00:00Z |
        | mem-2 | Ran 9 miles in July | 0.95  | 2025-07-02T10:00:00Z |
      When the user says "How did I run in May?"
      And the router decides:
        | primary_agent | workout_coach                                |
        | complexity    | simple                                       |
        | time_ranges   | [{"from": "2025-05-01", "to": "2025-05-31"}] |
      And the workout coach replies "You ran 4 miles."
      Then the context of the workout coach excludes "miles in July"

      When the user says "And in July?"
      And the router decides:
        | primary_agent | workout_coach                                |
        | complexity    | simple                                       |
        | time_ranges   | [{"from": "2025-07-01", "to": "2025-07-31"}] |
      And the workout coach replies "You ran 9 miles."
      Then the memories of the workout coach contain "miles in July"
      And the context of the workout coach excludes "miles in May"

      When the user says "And on the whole?"
      And the router decides primary_agent "workout_coach" and complexity "simple"
      And the workout coach replies "You ran 13 miles."
      Then the memories of the workout coach contain "miles in May" and "miles in July"
