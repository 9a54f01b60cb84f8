"""Scenarios whose runs have all that the page shows."""

from __future__ import annotations

from typing import Final

SHOP: Final = """\
version: 1
pipeline: shop
channels:
  orders: {reducer: append, scope: session}
  status: {scope: session, default: new}
agents:
  triage:
    instructions: Send the user on.
    tools: [find_order]
    handoffs: [refunds]
    context: [instructions, history: {window: {messages: 2}}, current_message]
    writes: {messages: ["${run.final_message}"], status: seen}
  refunds:
    instructions: You refund orders.
    context:
      - instructions
      - history: {from: log, filters: [tool_messages, tool_calls, intermediate_ai]}
      - current_message
    writes: {messages: ["${run.final_message}"], orders: [{order: A-1042}], status: refunded}
tools:
  find_order: {args: {type: object}}
contracts:
  - from: triage
    to: refunds
    type: refund
    mode: transfer
    payload: {type: object, required: [order_id]}
flow: {handoffs: {start: triage}}
---
version: 1
scenario: the refund agent knows the order
pipeline: shop
turns:
  - user: Good morning
    replies: {triage: How can I help?}
    expect: {reply: How can I help?}
  - user: My headphones are broken
    replies:
      triage:
        - calls: [find_order: {of: the user}]
        - handoff: {to: refunds, type: refund, payload: {order_id: A-1042, reason: broken}}
      refunds: I have refunded it.
    tool_results: {find_order: {order: A-1042}}
    expect:
      agents: [triage, refunds]
      context:
        refunds:
          includes: [{$contains: A-1042}]
      state: {status: refunded}
  - user: Thank you
    restart: true
    replies: {triage: You are welcome.}
---
version: 1
scenario: a greeting is answered
pipeline: shop
turns:
  - user: Hello
    replies: {triage: Hello!}
    expect: {reply: Hello!, agents: [triage]}
"""

ATTACK: Final = (
    "</script><script>window.hacked = 1</script><img src=x onerror='window.hacked = 1'>"
    "<svg onload='window.hacked = 1'>"
)
HOSTILE: Final = """\
version: 1
pipeline: desk
agents:
  desk: {instructions: "ATTACK"}
flow: {handoffs: {start: desk}}
---
version: 1
scenario: "a name ATTACK"
pipeline: desk
turns:
  - user: "ATTACK \\u202Etxt.exe"
    replies: {desk: "javascript:alert(1) ATTACK"}
    expect: {reply: "other ATTACK"}
  - user: "\\u0645\\u0631\\u062D\\u0628\\u0627 \\u0628\\u0643"
    replies: {desk: "<b>bold</b> &amp; {{simkit-data}} \\u2028 <!-- "}
""".replace("ATTACK", ATTACK)

UNSEEN: Final = r"\u202E\u2066\u200B\x1B[31m\x07\x9B"
HOSTILE_NAMES: Final = """\
version: 1
pipeline: "shop UNSEEN"
channels:
  "orders UNSEEN": {reducer: append, scope: session}
agents:
  "desk UNSEEN":
    instructions: Help.
    tools: ["look UNSEEN"]
    handoffs: ["refunds UNSEEN"]
  "refunds UNSEEN":
    instructions: Refund.
    writes: {"orders UNSEEN": [{"key UNSEEN": "value UNSEEN"}]}
tools: {"look UNSEEN": {args: {type: object}}}
contracts:
  - {from: "desk UNSEEN", to: "refunds UNSEEN", type: "kind UNSEEN", payload: {type: object}}
flow: {handoffs: {start: "desk UNSEEN"}}
---
version: 1
scenario: "a name UNSEEN"
pipeline: "shop UNSEEN"
turns:
  - user: Hello
    replies:
      "desk UNSEEN":
        - calls: ["look UNSEEN": {"of UNSEEN": "it UNSEEN"}]
        - handoff: {to: "refunds UNSEEN", type: "kind UNSEEN", payload: {"key UNSEEN": 1}}
      "refunds UNSEEN": Done.
    tool_results: {"look UNSEEN": {"found UNSEEN": 1}}
    expect:
      agents: ["refunds UNSEEN", "desk UNSEEN"]
      state: {"orders UNSEEN": ["other UNSEEN"]}
""".replace("UNSEEN", UNSEEN)
"""Names, not only texts, that hold what no screen shows."""

LONG_WORDS: Final = """\
version: 1
pipeline: shop
agents:
  triage: {instructions: Send the user on., handoffs: [refunds]}
  refunds: {instructions: Refund., context: [instructions, handoff]}
contracts:
  - {from: triage, to: refunds, type: refund, payload: {type: object, required: [order_id]}}
flow: {handoffs: {start: triage}}
---
version: 1
scenario: long words
pipeline: shop
turns:
  - user: Hello
    replies:
      triage: {handoff: {to: refunds, payload: {order_id: WORD}}}
      refunds: WORD
    expect: {reply: otherWORD}
""".replace("WORD", "x" * 75)

LONG: Final = """\
version: 1
pipeline: p
agents:
  desk: {instructions: Help., tools: [look]}
tools: {look: {args: {type: object}}}
channels: {seen: {reducer: append, scope: session}}
flow: {handoffs: {start: desk}}
limits: {turns: 5000}
---
version: 1
scenario: long
pipeline: p
turns:
"""


def long_scenario(turns: int) -> str:
    """Return a conversation of so many turns."""
    lines = [
        f"  - user: Question {number} of many\n    replies: {{desk: Answer {number}}}"
        for number in range(1, turns + 1)
    ]
    return LONG + "\n".join(lines) + "\n"


LATE: Final = """\
pipeline: fork
channels: {verdict: {reducer: append, scope: turn}}
agents:
  desk: {instructions: Choose., output: {type: object}}
  left: {instructions: Left., handoffs: [clerk]}
  right: {instructions: Right., writes: {verdict: ["${run.reply}"]}}
  clerk: {instructions: Clerk., context: [instructions, handoff]}
contracts: [{from: left, to: clerk, type: refund, payload: {type: object}}]
flow: {router: {decide: desk, to: "${run.output.to}"}}
---
scenario: two at once
pipeline: fork
turns:
  - user: Hello
    replies:
      desk: {json: {to: {parallel: [left, right]}}, latency_ms: 400}
      left:
        - {handoff: {to: clerk, payload: {order_id: A-1042, reason: broken}}, latency_ms: 900}
      clerk: Done.
      right: {text: R, latency_ms: 600}
  - user: Again
    pause: 3 days
    replies: {desk: {json: {to: [right]}}, right: R}
"""
"""Branches that overlap in time, a handoff with a payload, and a pause."""
