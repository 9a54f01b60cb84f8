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
        | request           | decision      | node            |
        | A page, please    | create a page | create document |
        | Correct my page   | update page 7 | update document |

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
