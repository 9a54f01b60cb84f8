Feature: Bad habits are noticed
  Some handoffs work, and are wrong all the same: the document in the question, a kind of handoff that
  nobody agreed on, data that nobody reads. Each is found without being looked for.

  Rule: It is found

    Scenario: The document stands in the question
      Given the pipeline "data_in_query"
      And the state has this reference_content:
        """
        On Monday I slept six hours and woke twice because of the rain. On Tuesday I slept seven hours after a long walk along the river. On Wednesday I slept five hours, since a neighbour moved furniture until midnight.
        """
      When the user says "Compare my journal"
      And the reference agent hands off to the research agent asking "USER HAS DOCUMENT: On Monday I slept six hours and woke twice because of the rain. On Tuesday I slept seven hours after a long walk along the river. On Wednesday I slept five hours, since a neighbour moved furniture until midnight. REQUEST: Published data on sleep" with:
        | reference_document | content | On Monday I slept six hours and woke twice because of the rain. On Tuesday I slept seven hours after a long walk along the river. On Wednesday I slept five hours, since a neighbour moved furniture until midnight. |
      And the research agent replies "Adults sleep 7 hours."
      And the reference agent replies "You sleep less."
      Then the lint HND-10 is found

    Scenario: Nobody agreed on this handoff
      Given the pipeline "unregistered_type"
      When the user says "Compare my journal"
      And the reference agent hands off to the research agent as research_delegation asking "Published data on sleep" with:
        | reference_document | content | Six hours a night. |
      And the research agent replies "Adults sleep 7 hours."
      Then the lint HND-11 is found

    Scenario: The data arrives, and nobody reads it
      Given the pipeline "context_ignored"
      When the user says "Compare my journal"
      And the reference agent hands off to the research agent as research delegation asking "Published data on sleep" with:
        | reference_document | content | Six hours a night. |
      And the research agent replies "I have no context."
      And the reference agent replies "The research had no context."
      Then the lint HND-12 is found
      And the context of the research agent has the sections instructions, history and current message

  Rule: And this is how it is done

    Scenario: The question is a question, and the data is read
      Given the pipeline "clean_handoff"
      When the user says "Compare my journal"
      And the reference agent hands off to the research agent as research delegation asking "Published data on sleep" with:
        | reference_document | content | Six hours a night. |
      And the research agent replies "Adults sleep 7 hours."
      And the reference agent replies "You sleep less."
      Then the current message of the research agent is:
        | user | Published data on sleep |
      And the handoff section of the research agent contains "Six hours a night."
      And the reference agent delegated to the research agent
      And the reply is "You sleep less."
