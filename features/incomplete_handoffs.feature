Feature: Half a handoff is no handoff
  Every kind of handoff says what must travel. What lacks a part, or carries what nobody asked for, is
  refused; the sender is told what is missing, and answers itself.

  Rule: The reference agent must say it all

    Background:
      Given the pipeline "orchestrator"
      And the state has primary_agent_selected "reference_agent"

    Scenario Outline: A delegation without <missing> is refused
      When the user says "Compare my journal"
      And the reference agent hands off to the research agent asking "Published data on sleep" with:
        | reference_document | <document> |
        | referenced_files   | {}         |
        | analysis_context   | <analysis> |
      And the reference agent replies "I could not start the research."
      Then the handoff from the reference agent to the research agent was rejected because its reason contains "<missing>"
      And the second context of the reference agent includes "<missing>"
      And the reply is "I could not start the research."

      Examples: The document has four parts
        | missing     | document                                                           | analysis                                                                           |
        | content     | {"type": "journal", "filename": "j.md", "has_content": true}       | {"needs_calculations": false, "calculation_results": null, "complexity": "simple"} |
        | type        | {"content": "Six hours.", "filename": "j.md", "has_content": true} | {"needs_calculations": false, "calculation_results": null, "complexity": "simple"} |
        | filename    | {"content": "Six hours.", "type": "journal", "has_content": true}  | {"needs_calculations": false, "calculation_results": null, "complexity": "simple"} |
        | has_content | {"content": "Six hours.", "type": "journal", "filename": "j.md"}   | {"needs_calculations": false, "calculation_results": null, "complexity": "simple"} |

      Examples: The analysis has three parts
        | missing             | document                                                                              | analysis                                                   |
        | needs_calculations  | {"content": "Six hours.", "type": "journal", "filename": "j.md", "has_content": true} | {"calculation_results": null, "complexity": "simple"}      |
        | calculation_results | {"content": "Six hours.", "type": "journal", "filename": "j.md", "has_content": true} | {"needs_calculations": false, "complexity": "simple"}      |
        | complexity          | {"content": "Six hours.", "type": "journal", "filename": "j.md", "has_content": true} | {"needs_calculations": false, "calculation_results": null} |

    Scenario Outline: A document that <lies> is refused
      When the user says "Compare my journal"
      And the reference agent hands off to the research agent asking "Published data on sleep" with:
        | reference_document | content             | <content> |
        | reference_document | type                | journal   |
        | reference_document | filename            | j.md      |
        | reference_document | has_content         | <claimed> |
        | referenced_files   | {}                  |           |
        | analysis_context   | needs_calculations  | false     |
        | analysis_context   | calculation_results | null      |
        | analysis_context   | complexity          | simple    |
      And the reference agent replies "I could not start the research."
      Then the handoff from the reference agent to the research agent was rejected because its reason contains "reference_document"
      And the research agent did not run

      Examples:
        | lies                    | content    | claimed |
        | claims content it lacks | ""         | true    |
        | hides its content       | Six hours. | false   |

    Scenario: No files is an empty list of files, and not silence about them
      When the user says "Compare my journal"
      And the reference agent hands off to the research agent asking "Published data on sleep" with:
        | reference_document | {"content": "Six hours.", "type": "journal", "filename": "j.md", "has_content": true} |
        | analysis_context   | {"needs_calculations": false, "calculation_results": null, "complexity": "simple"}    |
      And the reference agent replies "I could not start the research."
      Then the handoff from the reference agent to the research agent was rejected because its reason contains "'referenced_files' is a required property"

    Scenario: The analysis is not left out either
      When the user says "Compare my journal"
      And the reference agent hands off to the research agent asking "Published data on sleep" with:
        | reference_document | {"content": "Six hours.", "type": "journal", "filename": "j.md", "has_content": true} |
        | referenced_files   | {}                                                                                    |
      And the reference agent replies "I could not start the research."
      Then the handoff from the reference agent to the research agent was rejected because its reason contains "'analysis_context' is a required property"

    Scenario: What nobody asked for stays at home
      When the user says "Compare my journal"
      And the reference agent hands off to the research agent asking "Published data on sleep" with:
        | reference_document | {"content": "Six hours.", "type": "journal", "filename": "j.md", "has_content": true} |
        | referenced_files   | {}                                                                                    |
        | analysis_context   | {"needs_calculations": false, "calculation_results": null, "complexity": "simple"}    |
        | mood               | cheerful                                                                              |
      And the reference agent replies "I could not start the research."
      Then the handoff from the reference agent to the research agent was rejected because its reason contains "mood"

  Rule: The chat agent must say what was talked about

    Background:
      Given the pipeline "orchestrator"

    Scenario: A lookup without the conversation is refused, and chat answers itself
      When the user says "Who won the 2025 race?"
      And the chat agent hands off to the research agent as quick lookup asking "winner of the 2025 race" with reason "curiosity"
      And the chat agent replies "I could not look it up."
      Then the handoff from the chat agent to the research agent was rejected because its reason contains "'conversation_context' is a required property"
      And the reply is "I could not look it up."

    Scenario: What must travel is known before anybody speaks
      When the user says "Hello"
      And the chat agent replies "Hello."
      Then a handoff from the chat agent to the research agent as quick lookup must carry conversation_context
      And a handoff from the reference agent to the research agent as research delegation must carry source_agent, handoff_type, reference_document, referenced_files and analysis_context

  Rule: A project asks others for research, for an analysis, for a text

    Background:
      Given the pipeline "delegation_types"

    Scenario Outline: A <kind> without <missing> is refused
      When the user says "Help me with my greenhouse"
      And the general project agent hands off to the <target> as <kind> asking "Please" with:
        | <first>  | <one> |
        | <second> | <two> |
      And the general project agent replies "I could not start it."
      Then the handoff from the general project agent to the <target> was rejected because its reason contains "'<missing>' is a required property"
      And the <target> did not run

      Examples: Research
        | kind                | target         | missing            | first              | one                 | second           | two                |
        | research delegation | research agent | reference_document | analysis_context   | {"checked": "all"}  | constraints      | {"period": "2025"} |
        | research delegation | research agent | analysis_context   | reference_document | {"content": "Plan"} | constraints      | {"period": "2025"} |
        | research delegation | research agent | constraints        | reference_document | {"content": "Plan"} | analysis_context | {"checked": "all"} |

      Examples: An analysis
        | kind                | target                 | missing            | first              | one       | second        | two         |
        | analysis delegation | content analysis agent | content_to_analyze | analysis_type      | structure | criteria      | ["clarity"] |
        | analysis delegation | content analysis agent | analysis_type      | content_to_analyze | Ten tips  | criteria      | ["clarity"] |
        | analysis delegation | content analysis agent | criteria           | content_to_analyze | Ten tips  | analysis_type | structure   |

      Examples: A text
        | kind                  | target                | missing            | first              | one          | second      | two            |
        | generation delegation | fiction editing agent | generation_context | style_guide        | gentle       | constraints | {"words": 300} |
        | generation delegation | fiction editing agent | style_guide        | generation_context | A greenhouse | constraints | {"words": 300} |
        | generation delegation | fiction editing agent | constraints        | generation_context | A greenhouse | style_guide | gentle         |
