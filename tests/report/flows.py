"""A graph and a supervisor: flows that lead from one agent's output to the next one's input."""

GRAPH = """\
version: 1
pipeline: finding
defaults: {context: [instructions, input]}
agents:
  starter: {function: "simkit:same", writes: {}}
  searcher: {instructions: Search., tools: [search]}
  analyzer: {instructions: Analyze.}
tools: {search: {}}
flow:
  graph:
    nodes:
      start: {agent: starter, start: true}
      search: {agent: searcher}
      exit: {agent: analyzer, exit: true}
    edges:
      - {from: start, to: search}
      - {from: search, to: exit}
---
version: 1
scenario: found
pipeline: finding
turns:
  - user: {json: {request: find}}
    replies:
      search: [calls: {search: {for: a}}, {json: {files: [a.py]}}]
      exit: It is empty.
    tool_results: {search: {returns: [a.py]}}
"""
SUPERVISED = """\
version: 1
pipeline: report
agents:
  reader: {instructions: Read.}
  writer: {instructions: Write.}
flow:
  supervisor:
    goals: {report: {steps: [reader: Read the table, writer: "Sum up ${run.output}"]}}
---
version: 1
scenario: reported
pipeline: report
turns:
  - {user: go, replies: {reader: 3 rows, writer: Three.}}
"""
