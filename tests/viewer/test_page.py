"""The page in a real browser: every view by role and text, links, keys, and no request."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any, Final

import pytest

from simkit.trace.events import RequestSent, ResponseReceived
from tests.viewer.browser import pages_of, views_of, write_page
from tests.viewer.scenes import SHOP

pytestmark = pytest.mark.slow

SCENARIOS = Path(__file__).resolve().parents[2] / "scenarios"
FAILING = "the-refund-agent-knows-the-order"
ROW = """\
pipeline: row
agents:
  start: {instructions: Start., handoffs: [left, right]}
  left: {instructions: Left., handoffs: [right]}
  right: {instructions: Right., handoffs: []}
flow: {handoffs: {start: start}}
---
scenario: from left to right
pipeline: row
turns:
  - user: Hello
    replies: {start: {handoff: {to: left}}, left: {handoff: {to: right}}, right: Done.}
  - user: Again
    session: other
    replies: {start: {handoff: {to: right}}, right: Done.}
"""
"""A pipeline with a long way past an agent."""
CALL = f"#{FAILING}/turn-2/call-3"
"""The call of the refund agent."""
READS = ".loading, [aria-busy=true]"
"""What the page shows while it reads a run."""


def opened(tab: Any, address: str, place: str = "") -> Any:
    """The tab with the page at a place of it."""
    tab.goto("about:blank")
    tab.goto(address + place)
    tab.get_by_role("main").wait_for()
    tab.locator(READS).first.wait_for(state="detached")
    return tab


def rows(tab: Any, agent: str) -> list[str]:
    """What an agent was sent, a text a row."""
    region = tab.get_by_role("region", name=f"What {agent} was sent")
    region.wait_for()
    texts: list[str] = region.locator(".rows > li").all_inner_texts()
    return [" ".join(text.split()) for text in texts]


def text_of(tab: Any, region: str) -> str:
    """The text of a region."""
    place = tab.get_by_role("region", name=region, exact=True)
    place.wait_for()
    return " ".join(place.inner_text().split())


def test_the_overview_has_failed_scenarios_first(tab: Any, shop: str) -> None:
    opened(tab, shop)

    items = tab.get_by_role("listitem").filter(has=tab.get_by_role("link"))
    assert "failed" in items.nth(0).inner_text()
    assert "context.refunds.includes matches no message" in items.nth(0).inner_text()
    assert "passed" in items.nth(1).inner_text()


def test_the_overview_is_filtered_as_somebody_types(tab: Any, shop: str) -> None:
    opened(tab, shop)

    tab.get_by_label("Filter").fill("greeting")
    assert tab.get_by_role("status").inner_text() == "1 scenario shown"
    tab.get_by_label("Filter").fill("nothing of this")
    assert tab.get_by_text("No scenario fits.").is_visible()
    tab.get_by_label("Filter").fill("")
    tab.get_by_role("button", name=re.compile("^passed")).click()
    assert tab.get_by_role("status").inner_text() == "1 scenario shown"


def test_a_failing_scenario_opens_at_its_finding(tab: Any, shop: str) -> None:
    opened(tab, shop)

    tab.get_by_role("link", name="the refund agent knows the order").click()

    findings = text_of(tab, "Findings")
    assert "1 failure" in findings
    assert "turn 2, refunds, call 1" in findings
    assert rows(tab, "refunds")


def test_an_agent_was_sent_sections_with_their_origin_and_what_was_left_out(
    tab: Any, shop: str
) -> None:
    opened(tab, shop, CALL)

    assert rows(tab, "refunds") == [
        "instructions 1 system by refunds 5 You refund orders.",
        "history 2 user turn 1 3 Good morning",
        "3 assistant by triage · turn 1 4 How can I help?",
        'assistant by triage · turn 2 left out by intermediate_ai → find_order({"of":"the user"})',
        'tool by triage · tool find_order · turn 2 left out by tool_messages {"order":"A-1042"}',
        "assistant by triage · turn 2 left out by intermediate_ai "
        '→ hands off to refunds({"type":"refund","payload":'
        '{"order_id":"A-1042","reason":"broken"}})',
        "tool by triage · tool transfer_to_refunds · turn 2 left out by tool_messages "
        "Transferred to refunds.",
        "current_message 4 user turn 2 6 My headphones are broken",
    ]
    assert tab.get_by_role("deletion").count() == 4
    assert "4 left out" in text_of(tab, "What refunds was sent")


def test_a_handoff_says_where_each_value_of_its_payload_went(tab: Any, shop: str) -> None:
    opened(tab, shop, CALL)

    details = text_of(tab, "Result")
    assert "triage → refunds: made, type refund, mode transfer" in details
    assert "order_id A-1042 nowhere" in details
    assert "broken not observable: in current_message, with or without the handoff" in details
    assert "I have refunded it." in details
    assert "status reducer replace refunded" in details


def test_a_call_is_compared_with_the_one_before(tab: Any, shop: str) -> None:
    opened(tab, shop, f"#{FAILING}/turn-3/call-1")

    texts = rows(tab, "triage")
    context = text_of(tab, "What triage was sent")
    assert any("new since the call before" in text and "Thank you" in text for text in texts)
    assert any("gone since the call before" in text for text in texts)
    assert "Stable prefix: 1 message" in context
    assert "a provider's cache ends in" in context


def test_the_stable_prefix_is_whole_where_a_context_only_grows(tab: Any, shop: str) -> None:
    opened(tab, shop, f"#{FAILING}/turn-2/call-2")

    assert "all that was sent then" in text_of(tab, "What triage was sent")
    assert any("the stable prefix ends here" in text for text in rows(tab, "triage"))


def test_the_timeline_has_a_lane_an_agent_and_pins_findings(tab: Any, shop: str) -> None:
    opened(tab, shop, CALL)

    timeline = tab.get_by_role("region", name="Timeline")
    assert timeline.locator(".lane-name").all_inner_texts() == ["user", "triage", "refunds"]
    assert timeline.get_by_role("button", name=re.compile("handoff triage → refunds")).count() == 1
    pinned = timeline.get_by_role("button", name=re.compile("findings? here"))
    assert "model call of refunds" in pinned.first.get_attribute("aria-label")
    assert timeline.get_by_role("button", name=re.compile("^restart, turn 3")).count() == 1
    assert timeline.get_by_role("button", name=re.compile("^tool of triage")).count() == 1


def test_who_saw_what_answers_whether_a_text_leaked(tab: Any, shop: str) -> None:
    opened(tab, shop, f"#{FAILING}/who")

    grid = tab.get_by_role("grid")
    grid.wait_for()
    assert [cell.strip() for cell in grid.get_by_role("columnheader").all_inner_texts()] == [
        "message",
        "triage",
        "refunds",
    ]
    row = grid.get_by_role("row").filter(has_text="tool find_order")
    assert row.get_by_label("left out by tool_messages: refunds").count() == 1
    assert row.get_by_label("sent: triage").count() == 1
    tab.get_by_label("Messages with").fill("A-1042")
    assert "sent to triage" in tab.get_by_role("status").inner_text()
    row.get_by_label("sent: triage").click()
    assert "What triage was sent" in text_of(tab, "What triage was sent")


def test_the_state_of_a_turn_is_shown_as_it_was_and_became(tab: Any, shop: str) -> None:
    opened(tab, shop, f"#{FAILING}/state/turn-2")

    state = text_of(tab, "State")
    assert "status reducer replace, scope session · written by refunds" in state
    assert "went: seen + came: refunded" in state
    tab.get_by_role("link", name="turn 3 →").click()
    tab.get_by_role("heading", name=re.compile("State in turn 3")).wait_for()
    assert "+ came: seen" in text_of(tab, "State")


def test_the_state_opens_at_the_turn_of_the_finding(tab: Any, shop: str) -> None:
    opened(tab, shop, f"#{FAILING}")

    tab.get_by_role("link", name="State", exact=True).click()

    assert text_of(tab, "State").startswith("State in turn 2")


def test_the_list_is_ordered_and_grouped_by_file(tab: Any, shop: str) -> None:
    opened(tab, shop)

    tab.get_by_label("Order").select_option("name")
    assert "a greeting" in tab.get_by_role("listitem").nth(0).inner_text()
    tab.get_by_label("Order").select_option("file")
    file, *scenarios = tab.locator(".scenario").all_inner_texts()
    assert " ".join(file.split()).endswith("shop.scenario.yaml 1 failed, 1 passed")
    assert len(scenarios) == 2


def test_a_call_of_code_has_its_request_and_its_line(tab: Any, tmp_path: Path) -> None:
    file = SCENARIOS / "plain_http" / "recorded.scenario.yaml"
    page = write_page(tmp_path / "report.html", pages_of(file)[:1])
    opened(tab, page)
    tab.locator(".scenario a").click()

    result = tab.get_by_role("region", name="Result")
    result.get_by_text("lookup_desk.py:").wait_for()
    tab.get_by_text("Raw request and response").click()
    text = text_of(tab, "Result")
    assert "POST api.openai.com/v1/chat/completions" in text
    assert '"content": "I watched the race"' in text
    assert "Status 200" in text


def test_what_servers_were_asked_stands_below_the_run(tab: Any, tmp_path: Path) -> None:
    file = tmp_path / "shop.scenario.yaml"
    file.write_text(SHOP, encoding="utf-8")
    facts: dict[str, Any] = {"turn": 2, "server": "files", "url": "mcp:files"}
    fails = {"error": {"code": -32601, "message": "no such method"}}
    page = pages_of(file, [
        RequestSent(0, **facts, call="files:1", method="initialize", body={"clientInfo": {}}),
        ResponseReceived(0, server="files", call="files:1", status=200, body=fails),
        RequestSent(0, **facts, call="files:2", method="tools/call", body={"name": "read_file"}),
    ])[0]  # fmt: skip
    opened(tab, write_page(tmp_path / "report.html", [page]), CALL)

    tab.get_by_text("What the scenario's servers were asked: 2 exchanges, 2 in turn 2").click()
    first, second = tab.locator(".servers li").all()
    assert "files initialize mcp:files turn 2 error" in " ".join(first.inner_text().split())
    second.get_by_text("tools/call mcp:files").click()
    second.get_by_text('"name": "read_file"').wait_for()


def test_the_pipeline_says_what_was_used_and_where_findings_are(tab: Any, shop: str) -> None:
    opened(tab, shop, f"#{FAILING}/pipeline")

    picture = tab.get_by_role("img", name=re.compile("^Pipeline shop")).first
    assert "triage → refunds, refund: 1 times" in picture.get_attribute("aria-label")
    assert picture.locator("rect.node.bad").count() == 1


def test_claims_stand_in_the_file_with_what_came_of_them(tab: Any, shop: str) -> None:
    opened(tab, shop, f"#{FAILING}/file")

    file = tab.get_by_role("region", name="Scenario file")
    failing = file.locator("li.failing")
    assert failing.count() == 1
    assert "includes: [{$contains: A-1042}]" in failing.inner_text()
    assert "context.refunds.includes matches no message" in failing.inner_text()
    assert "agents: [triage, refunds]" in "".join(file.locator("li.held").all_inner_texts())


@pytest.mark.parametrize(
    ("place", "text"),
    [
        (f"#{FAILING}/turn-1/call-1", "What triage was sent turn 1, call 1"),
        (CALL, "What refunds was sent turn 2, call 1"),
        (f"#{FAILING}/turn-3", "The user, in turn 3"),
        (f"#{FAILING}/finding-1", "What refunds was sent turn 2, call 1"),
        (f"#{FAILING}/state/turn-2", "State in turn 2"),
    ],
)
def test_a_link_goes_to_its_place(tab: Any, shop: str, place: str, text: str) -> None:
    opened(tab, shop, place)

    tab.get_by_text(text.partition(" turn")[0]).first.wait_for()
    assert text in " ".join(tab.get_by_role("main").inner_text().split())


def test_the_link_that_pytest_prints_goes_to_the_scenario(tab: Any, tmp_path: Path) -> None:
    file = tmp_path / "shop.scenario.yaml"
    file.write_text(SHOP, encoding="utf-8")
    pages = pages_of(file)
    address = write_page(tmp_path / "report.html", pages)

    opened(tab, address, f"#{pages[0].scenario.key}")

    assert "the refund agent knows the order" in tab.get_by_role("heading", level=1).inner_text()


def test_a_link_to_another_report_says_so(tab: Any, shop: str) -> None:
    opened(tab, shop, "#no-such-scenario/turn-1")

    assert (
        "No scenario of this page is named no-such-scenario"
        in tab.get_by_role("alert").inner_text()
    )


def test_the_keyboard_alone_is_enough(tab: Any, shop: str) -> None:
    opened(tab, shop)
    press = tab.keyboard.press

    press("j")
    press("Enter")
    assert rows(tab, "refunds")
    press("k")
    tab.get_by_role("heading", name=re.compile("Handoff in turn 2")).wait_for()
    press("n")
    tab.wait_for_url("**/finding-1")
    press("2")
    tab.get_by_role("grid").wait_for()
    press("/")
    tab.locator("#search:focus").wait_for()
    tab.keyboard.type("headphones")
    assert "1 message" in tab.get_by_role("status").inner_text()
    press("Escape")
    press("?")
    assert tab.get_by_role("dialog").is_visible()
    press("Escape")
    press("u")
    tab.get_by_role("heading", name=re.compile("2 scenarios")).wait_for()


def test_no_request_leaves_the_page(tab: Any, shop: str) -> None:
    addresses: list[str] = []
    tab.on("request", lambda request: addresses.append(request.url))

    for place in ("", CALL, f"#{FAILING}/who", f"#{FAILING}/state", f"#{FAILING}/file"):
        opened(tab, shop, place)

    assert {address.partition("#")[0] for address in addresses} <= {shop, "about:blank"}


def test_on_paper_there_are_no_controls(tab: Any, shop: str) -> None:
    opened(tab, shop, CALL)
    rows(tab, "refunds")

    tab.emulate_media(media="print")

    assert not tab.get_by_role("navigation", name="Views").is_visible()
    assert tab.get_by_text("You refund orders.").first.is_visible()


def test_two_runs_stand_side_by_side(tab: Any, two: str) -> None:
    opened(tab, two, f"#{FAILING}/diff")

    text = text_of(tab, "Difference")
    assert "ContextBuilt of refunds, turn 2" in text
    assert "Turns that are equal: 1, 3." in text
    assert "old against new" in text
    assert "What refunds was sent, turn 2, its call 1" in text
    assert "+ came tool history · by triage the other run left it out by tool_messages" in text


def test_the_difference_leads_to_the_call_in_both_runs(tab: Any, two: str) -> None:
    opened(tab, two, f"#{FAILING}/diff")
    links = tab.get_by_role("heading", name=re.compile("What refunds was sent")).get_by_role("link")
    links.first.wait_for()

    assert [link.get_attribute("href") for link in links.all()] == [
        f"#{FAILING}/base/turn-2/call-3",
        CALL,
    ]


@pytest.mark.parametrize("view", ["/turn-2/call-3", "/who", "/state/turn-2", "/pipeline", "/file"])
def test_every_view_of_the_base_is_there_and_its_links_stay_on_its_side(
    tab: Any, two: str, view: str
) -> None:
    opened(tab, two, f"#{FAILING}/base{view}")
    runs = tab.get_by_role("navigation", name="Runs")
    runs.wait_for()
    tab.locator("main section").first.wait_for()

    assert "old" in runs.locator("[aria-current=true]").inner_text()
    links = tab.locator("main a[href^='#the-refund']").all()
    addresses = [link.get_attribute("href") for link in links]
    own = [address for address in addresses if not address.endswith("/diff")]
    assert sum("/base" not in address for address in own) == 1
    tab.keyboard.press("b")
    tab.wait_for_url(f"**#{FAILING}{view.replace('/run', '')}")
    runs.locator("[aria-current=true]", has_text="new").wait_for()


def test_each_side_shows_its_own_run(tab: Any, two: str) -> None:
    opened(tab, two, f"#{FAILING}/base/turn-2/call-3")
    before = rows(tab, "refunds")
    tab.get_by_role("navigation", name="Runs").get_by_role("link", name="new").click()
    tab.get_by_text("6 messages").first.wait_for()

    assert [row for row in before if "left out by tool_messages" in row]
    assert not [row for row in rows(tab, "refunds") if "left out by tool_messages" in row]


def test_who_saw_what_is_what_the_contexts_of_the_trace_hold(tab: Any, tmp_path: Path) -> None:
    file = SCENARIOS / "fitness_coach" / "example.scenario.yaml"
    (page, *_), (view, *_) = pages_of(file), views_of(file)
    expected = {
        (message.id, call.agent)
        for call in view.calls.values()
        for message in call.context.messages
        if message.id
    }

    opened(tab, write_page(tmp_path / "r.html", [page]), f"#{page.scenario.key}/who")

    grid = tab.get_by_role("grid")
    grid.wait_for()
    cells = set()
    for row in grid.get_by_role("row").all():
        names = row.locator(".role").all_inner_texts()
        name = names[0].partition(" ")[0] if names else ""
        for label in row.locator("[aria-label^=sent]").all():
            text = label.get_attribute("aria-label")
            cells.add((name, text.rpartition(": ")[2]))
    assert {cell for cell in cells if re.fullmatch(r"m\d+", cell[0])} == expected


FORK = """\
version: 1
pipeline: fork
channels: {notes: {reducer: append, scope: turn}, verdict: {scope: turn}}
agents:
  desk: {instructions: Choose., output: {type: object}, context: [instructions, current_message]}
  left: {instructions: Left., writes: {verdict: "${run.reply}"}}
  right: {instructions: Right., writes: {verdict: "${run.reply}"}}
flow: {router: {decide: desk, to: "${run.output.to}"}}
---
version: 1
scenario: two at once
pipeline: fork
turns:
  - user: Hello
    replies:
      desk: {json: {to: {parallel: [left, right]}}}
      left: L
      right: R
"""


def test_what_runs_side_by_side_is_framed_and_its_conflict_is_named(
    tab: Any, tmp_path: Path
) -> None:
    file = tmp_path / "fork.scenario.yaml"
    file.write_text(FORK, encoding="utf-8")
    address = write_page(tmp_path / "report.html", pages_of(file))

    opened(tab, address, "#two-at-once")
    frame = tab.get_by_role("region", name="Timeline").locator(".parallel")
    frame.wait_for()
    assert "side by side" in frame.locator("title").text_content()

    opened(tab, address, "#two-at-once/state/turn-1")
    assert "left and right wrote it side by side" in text_of(tab, "State")


def test_state_that_nobody_sees_is_not_called_empty(tab: Any, tmp_path: Path) -> None:
    (tmp_path / "echo_desk.py").write_text("def answer(text):\n    return text\n", encoding="utf-8")
    file = tmp_path / "echo.scenario.yaml"
    scenario = "version: 1\nscenario: echo\npipeline: echo_desk:answer\nturns: [{user: Hello}]\n"
    file.write_text(scenario, encoding="utf-8")

    opened(tab, write_page(tmp_path / "report.html", pages_of(file)), "#echo/state/turn-1")

    assert "State is not observable in this application." in text_of(tab, "State")


FAILING_CLAIMS: Final = (
    "{model_calls: {triage: 2, refunds: 1}, reply: x, agents: [], error: x, interrupt: x, "
    "logs: [{message: x}]}"
)
MANY: Final = SHOP.replace("{reply: How can I help?}", FAILING_CLAIMS)


def test_many_findings_leave_the_run_in_sight(tab: Any, tmp_path: Path) -> None:
    file = tmp_path / "many.scenario.yaml"
    file.write_text(MANY, encoding="utf-8")

    opened(tab, write_page(tmp_path / "report.html", pages_of(file)), f"#{FAILING}/finding-7")

    findings = tab.get_by_role("region", name="Findings")
    findings.wait_for()
    assert findings.locator("ol").first.locator("> li").count() == 5
    assert findings.locator("li.current").is_visible()
    findings.get_by_text("more failures").click()
    assert findings.locator("li.finding.failing").count() >= 8


def test_a_finding_shows_the_lines_of_its_claim(tab: Any, shop: str) -> None:
    opened(tab, shop, f"#{FAILING}/finding-1")

    assert "includes: [{$contains: A-1042}]" in text_of(tab, "Findings")


def test_a_write_stands_above_what_its_agent_was_sent(tab: Any, shop: str) -> None:
    opened(tab, shop, CALL)
    name = re.compile("^state written of refunds, turn 2")
    tab.get_by_role("region", name="Timeline").get_by_role("button", name=name).click()

    assert "orders reducer append" in text_of(tab, "State written")
    assert rows(tab, "refunds")
    assert "orders" not in text_of(tab, "Result")


def test_an_answer_to_a_question_stands_over_its_turn(tab: Any, tmp_path: Path) -> None:
    file = SCENARIOS / "research_assistant" / "interrupts.scenario.yaml"
    address = write_page(tmp_path / "report.html", pages_of(file)[:1])

    opened(tab, address)
    tab.locator(".scenario a").first.click()

    heads = tab.get_by_role("region", name="Timeline").locator(".column .said")
    heads.first.wait_for()
    texts = heads.all_text_contents()
    assert texts[0] == "Tell me about it"
    assert len(texts) == 3
    assert "Tell me about it" not in texts[1:]


def test_no_label_of_the_pipeline_is_behind_a_node_or_another_label(
    tab: Any, tmp_path: Path
) -> None:
    file = tmp_path / "row.scenario.yaml"
    file.write_text(ROW, encoding="utf-8")
    opened(tab, write_page(tmp_path / "page.html", pages_of(file)))

    labels = [label.bounding_box() for label in tab.locator(".graph .edge-label").all()]
    nodes = [node.bounding_box() for node in tab.locator(".graph rect.node").all()]

    assert (len(labels), len(nodes)) == (3, 3)
    for number, label in enumerate(labels):
        assert not any(_overlap(label, box) for box in nodes + labels[:number])


def _overlap(box: dict[str, float], other: dict[str, float]) -> bool:
    across = box["x"] < other["x"] + other["width"] and other["x"] < box["x"] + box["width"]
    down = box["y"] < other["y"] + other["height"] and other["y"] < box["y"] + box["height"]
    return across and down


def test_the_longest_outcome_covers_no_name_in_the_list(tab: Any, tmp_path: Path) -> None:
    file = tmp_path / "shop.scenario.yaml"
    file.write_text(SHOP.replace("\nscenario: ", "\nxfail: known\nscenario: ", 1), encoding="utf-8")
    opened(tab, write_page(tmp_path / "page.html", pages_of(file)))

    row = tab.locator(".scenario", has_text="failed as expected")
    badge, name = row.locator(".badge").bounding_box(), row.get_by_role("link").bounding_box()

    assert badge["x"] + badge["width"] < name["x"]


def test_a_finding_about_an_agent_that_never_ran_names_whose_call_it_stands_at(
    tab: Any, tmp_path: Path
) -> None:
    text = SHOP.replace(
        "    replies: {triage: How can I help?}",
        "    replies: {triage: How can I help?, refunds: Never said.}",
    )
    file = tmp_path / "shop.scenario.yaml"
    file.write_text(text, encoding="utf-8")
    opened(tab, write_page(tmp_path / "page.html", pages_of(file)[:1]), f"#{FAILING}")

    texts = tab.locator(".findings small").all_inner_texts()
    places = [text.split(" · ")[0].strip() for text in texts]

    assert [place for place in places if "turn 1, refunds, call" in place] == [
        "turn 1, refunds, call 1 of triage"
    ]


def test_a_write_names_the_later_agents_that_were_sent_it(tab: Any, tmp_path: Path) -> None:
    file = SCENARIOS / "supervisor_context/context_flow.scenario.yaml"
    page = write_page(tmp_path / "report.html", pages_of(file))

    opened(tab, page, "#the-context-grows-by-one-output-a-step/turn-1/call-1")

    details = text_of(tab, "Result")
    assert "sent on to analysis_agent, turn 1, call 1, in shared" in details
    assert "sent on to reporting_agent, turn 1, call 1, in shared" in details
