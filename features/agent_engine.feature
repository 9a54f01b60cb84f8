Feature: An engine of nodes
  A request wanders from node to node. A decision chooses the way, and every node is told what it
  needs to know: of this task, of this project, or of everything.

  Rule: A decision chooses the way

    Background:
      Given the pipeline "decision"

    Scenario Outline: The branch is the one that the decision names
      When the user sends request "<request>"
      And classify request decides decision "<decision>"
      And <node> replies "Done."
      And finalize replies "The page is ready."
      Then these agents ran in order: classify request, <node> and finalize
      And the upstream of <node> contains "<decision>"
      And the reply is "The page is ready."

      Examples:
        | request         | decision      | node            |
        | A page, please  | create a page | create document |
        | Correct my page | update page 7 | update document |

    Scenario: A request that fits nothing is asked back
      When the user sends request "Hm"
      And classify request decides decision "unclear"
      And ask back replies "What shall I do?"
      Then these agents ran in order: classify request and ask back
      And finalize did not run

    Scenario: Two branches work at the same time
      When the user sends request "Replace the page"
      And classify request decides decision "replace"
      And create document replies "Created."
      And update document replies "Updated."
      And finalize replies "Replaced."
      Then these agents ran in order: classify request, replace document, create document beside update document and finalize
      And the input of finalize has the keys create_document and update_document

    Scenario: The branch knows what the decision knew
      Given the state has these project_items:
        | text           |
        | Style guide v2 |
      And look_up returns pages "none of that title"
      When the user sends request "A page about holidays"
      And classify request calls look_up with title "holidays"
      And classify request decides decision "create"
      And create document replies "Done."
      And finalize replies "The page is ready."
      Then the recall of create document contains "Style guide v2"
      And the upstream of create document contains "none of that title"

    Scenario: Who collects sees what each branch did, and why it was asked
      Given create_doc returns doc "d8"
      And update_doc returns doc "d7"
      When the user sends request "Replace the page about holidays"
      And classify request decides decision "replace"
      And create document calls create_doc with title "Holidays"
      And create document replies "Page 8."
      And update document calls update_doc with id 7
      And update document replies "Page 7 points to page 8."
      And finalize replies "Page 8 stands in for page 7."
      Then the context of finalize includes "Page 8."
      And the context of finalize includes "{\"doc\":\"d8\"}"
      And the context of finalize includes "{\"doc\":\"d7\"}"
      And the context of finalize includes "{\"node\":\"classify_request\",\"label\":\"replace\"}"

  Rule: A node is told what it needs to know

    Background:
      Given the pipeline "memory"
      And the state has these project_items:
        | text                           | tags     |
        | Users sign in with a password. | ["code"] |
      And the state has these global_items:
        | text                 | tags     |
        | Hash what is secret. | ["code"] |
      When the user sends request "Add a second factor"
      And search decides:
        | for_the_task | text | Logins are in auth.py. |
        | for_the_task | tags | ["code"]               |
      And decide replies "Ask for a code."
      And analyze replies "It takes a day."

    Scenario: The search knows nothing but the request
      Then the context of search has the sections instructions and input
      And the context of search excludes "password"

    Scenario: The decision knows the task and the project
      Then the recall of decide contains "auth.py" and "password"
      And "Hash what is secret." was left out of the context of decide by scopes

    Scenario: The analysis knows everything
      Then the recall of analyze contains "auth.py" and "password" and contains "Hash"
      And nothing was left out of the context of analyze

    Scenario: The next task knows what the project learned, and not the last task
      When the user sends request "Remove the password"
      And search decides:
        | for_the_task    | text | Passwords are in users.py. |
        | for_the_task    | tags | ["code"]                   |
        | for_the_project | text | Sessions are in redis.     |
        | for_the_project | tags | ["code"]                   |
      And decide replies "Drop the column."
      And analyze replies "It takes an hour."
      And the user sends request "Test it"
      And search replies "Found it."
      And decide replies "Write a test."
      And analyze replies "It takes an hour."
      Then what search received has task_items that are empty
      And what analyze received has task_items that are empty
      And the recall of decide contains "Sessions are in redis."
      And the context of analyze excludes "auth.py"
      And the state has two project_items

  Rule: A node is told what fits

    Scenario: The newest with the right tags, as many as fit
      Given the pipeline "memory"
      And the state has these project_items:
        | text                                                                  | tags       | at                   |
        | Cookies are set by the gateway alone, for one day, and by no service. | ["code"]   | 2025-09-01T00:00:00Z |
        | Tokens are kept in the cache.                                         | ["code"]   | 2025-10-01T00:00:00Z |
        | The API takes ten calls a second.                                     | ["code"]   | 2026-01-02T00:00:00Z |
        | The logo is blue.                                                     | ["design"] | 2026-01-04T00:00:00Z |
      And the state has these global_items:
        | text                        | tags                 | at                   |
        | Every service logs in UTC.  | ["code"]             | 2026-01-03T00:00:00Z |
        | Lunch is at noon.           | []                   | 2026-01-04T00:00:00Z |
        | Hash passwords with argon2. | ["code", "security"] | 2026-01-04T00:00:00Z |
      When the user sends request "Add a second factor"
      And search replies "Found it."
      And decide replies "Ask for a code."
      And analyze replies "It takes a day."
      Then the context of decide includes a system message that is:
        """
        project_items:
        - The API takes ten calls a second.
        - Tokens are kept in the cache.
        """
      And the context of analyze includes a system message that is:
        """
        project_items:
        - The API takes ten calls a second.
        global_items:
        - Hash passwords with argon2.
        - Every service logs in UTC.
        """
      And these items were left out of the context of analyze:
        | channel       | text                                                                  | by     |
        | project_items | Cookies are set by the gateway alone, for one day, and by no service. | tokens |
        | project_items | Tokens are kept in the cache.                                         | tokens |
        | project_items | The logo is blue.                                                     | tags   |
        | global_items  | Lunch is at noon.                                                     | tags   |
