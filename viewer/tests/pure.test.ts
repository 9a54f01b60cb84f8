// What the page computes without a document: links, states, contexts, comparisons.
import { expect, test } from "vitest";
import { axisOf, reachOf, slotOf, spansIn, spansOf } from "../src/axis";
import { compared, lineDiff } from "../src/comparing";
import { byAgent, callBefore, readersOf, rowsOf, saidBefore } from "../src/contexts";
import type { Call, Index, Mark, Message, RunData } from "../src/document";
import { lineOf, NODE_WIDTH, positionsOf } from "../src/layout";
import { callAt, hashOf, keysOf, numberOf, placeOf } from "../src/links";
import { Matrix } from "../src/seen";
import { time } from "../src/parts";
import { changed, States } from "../src/states";
import { bodyOf, next } from "../src/wire";

const message = (text: number, id = "", role = "user"): Message => ({ role, text, id });
const call = (id: string, turn: number, parts: Call["parts"]): Call => ({
  id, agent: "desk", run: `r${turn}`, turn, at: 0, parts,
});

const run: RunData = {
  texts: ["Be kind.", "one", "two", "three", "Be very kind."],
  messages: [
    message(0, "", "system"), message(1, "m1"), message(2, "m2"), message(3, "m3"),
    message(4, "", "system"),
  ],
  streams: [{ name: "s", entries: [1, 2, 3], tokens: [1, 1, 1], cuts: [] }],
  toolsets: [],
  offers: [],
  turns: [
    { number: 1, session: "s1", at: 0, after: { items: ["=", [1]], facts: ["=", { a: 1 }] } },
    { number: 2, session: "s1", at: 0, after: { items: ["+", [2], 0], facts: ["~", { b: ["=", 2] }] } },
  ],
  calls: [
    call("c1", 1, [{ section: "instructions", message: 0 }, { section: "history", stream: 0, hi: 1 }]),
    call("c2", 2, [
      { section: "instructions", message: 0 },
      { section: "history", stream: 0, lo: 1, hi: 2, tail: [3], tail_tokens: [1] },
    ]),
    call("c3", 2, [
      { section: "instructions", message: 4 }, { section: "history", stream: 0, lo: 1, hi: 3 },
    ]),
  ],
  runs: [], handoffs: [], tools: [], writes: [], marks: [], findings: [], agents: ["desk"],
  channels: {}, flow: "handoffs", graph: { name: "p" },
};

test("a link leads back to its place", () => {
  const place = { scenario: "a-b", base: true, view: "state" as const, turn: 2, call: 3, item: "" };
  expect(placeOf(hashOf(place))).toEqual(place);
  expect(placeOf("#a%2Fb/turn-x/call-1").call).toBe(1);
  expect(placeOf("#a%/turn-2").turn).toBe(2);
  expect(placeOf("#%E0%A4%A").scenario).toBe("%E0%A4%A");
  expect(placeOf("")).toEqual({ scenario: "", base: false, view: "run", turn: 0, call: 0, item: "" });
});

test("a scenario has its name as its link where no other has it, and its key always", () => {
  const scenario = (key: string, name: string) => ({ key, name, id: key, file: "", line: 1, outcome: "held" });
  const keys = keysOf({ scenarios: [scenario("k1", "A b!"), scenario("k2", "same"), scenario("k3", "same")] } as Index);
  expect(keys.get("a-b")?.key).toBe("k1");
  expect(keys.get("k1")?.key).toBe("k1");
  expect(keys.get("same")).toBeUndefined();
  expect(keys.get("k3")?.name).toBe("same");
});

test("calls are counted in their turn", () => {
  expect(numberOf(run, 2)).toBe(2);
  expect(callAt(run, 2, 2)).toBe(2);
  expect(callAt(run, 2, 3)).toBe(-1);
  expect(callAt(run, 7, 1)).toBe(-1);
});

test("a window's messages stand struck through before those that it shows", () => {
  const rows = rowsOf(run, run.calls[1]);
  expect(rows.map((row) => [row.kind, row.text, row.by])).toEqual([
    ["sent", "Be kind.", ""], ["dropped", "one", "window"], ["sent", "two", ""], ["sent", "three", ""],
  ]);
});

test("a message with another text is changed", () => {
  const [one, other] = [run.calls[1], run.calls[2]];
  const { fates } = compared(run, rowsOf(run, one), rowsOf(run, other));
  expect([...fates.values()]).toEqual(["changed", "same", "same"]);
});

test("what is gone is said, and where it stood", () => {
  const [one, other] = [run.calls[0], run.calls[1]];
  const rows = rowsOf(run, other);
  const { went, fates } = compared(run, rowsOf(run, one), rows);
  expect(rows.map((row) => fates.get(row))).toEqual(["same", "went", "came", "came"]);
  expect(went).toEqual([]);
});

test("what no row shows any longer stands after what came before it", () => {
  const other = { ...run.calls[1], parts: run.calls[1].parts!.slice(0, 1), tail: [] };
  const { went } = compared(run, rowsOf(run, run.calls[0]), rowsOf(run, other));
  expect(went.map(({ row, before }) => [row.text, before])).toEqual([["one", 1]]);
});

test("the call before is of the same agent and session", () => {
  expect([0, 1, 2].map((index) => callBefore(run, index))).toEqual([-1, 0, 1]);
});

test("states come from changes, in any order of asking", () => {
  const states = new States(run);
  expect(states.at(1).after).toEqual({ items: [1, 2], facts: { a: 1, b: 2 } });
  expect(states.at(0).after).toEqual({ items: [1], facts: { a: 1 } });
  expect(states.at(1).before).toEqual({ items: [1], facts: { a: 1 } });
  expect(run.turns[0].after!.items).toEqual(["=", [1]]);
  expect(changed([1, 2, 3], ["+", [4], 1])).toEqual([2, 3, 4]);
});

test("once sent is seen, and what no call showed is left out", () => {
  const matrix = new Matrix(run);
  expect(matrix.of(1, "desk")).toEqual({ kind: "sent", call: 0, by: "" });
  expect(matrix.of(3, "desk")).toEqual({ kind: "sent", call: 1, by: "" });
  expect(matrix.of(3, "nobody")).toBeUndefined();
});

test("a message that was edited and then left out was not sent", () => {
  const cuts = [{ message: 1, by: "cut", what: "tool_calls" }, { message: 1, by: "drop" }];
  const data = {
    ...run, streams: [{ name: "s", entries: [2], tokens: [1], cuts }],
    calls: [call("c1", 1, [{ section: "history", stream: 0, hi: 1, cuts: 2 }])],
  };
  expect(new Matrix(data).of(1, "desk")).toEqual({ kind: "dropped", call: 0, by: "drop" });
});

test("the edited form of a message is the message, sent in part", () => {
  const data = {
    ...run, messages: [...run.messages, message(4, "m1")],
    streams: [{ name: "s", entries: [5], tokens: [1], cuts: [{ message: 1, by: "cut", what: "content" }] }],
    calls: [call("c1", 1, [{ section: "history", stream: 0, hi: 1, cuts: 1 }])],
  };
  const matrix = new Matrix(data);
  expect(matrix.of(1, "desk")).toEqual({ kind: "edited", call: 0, by: "cut" });
  expect(matrix.rows).toEqual([1, 2, 3]);
});

test("a comma after a list's last item is no difference", () => {
  const kinds = lineDiff('[\n  1\n]', '[\n  1,\n  2\n]').map((edit) => edit.kind);
  expect(kinds).toEqual(["same", "same", "came", "same"]);
});

const mark = (at: number, turn = 1, agent = "desk", run_ = "r1"): Mark => ({ kind: "write", at, turn, agent, run: run_ });

test("a pause of days takes a few events' room, and equal times take none", () => {
  const axis = axisOf([mark(0), mark(0), mark(300), mark(3 * 86_400_000, 2)]);
  const gaps = [...axis.at].slice(1).map((at, place) => at - axis.at[place]);
  expect(gaps[0]).toBe(1);
  expect(gaps[1]).toBeGreaterThan(1);
  expect(gaps[2]).toBeLessThan(6);
  expect(axis.pauses).toEqual([expect.objectContaining({ mark: 3, ms: 3 * 86_400_000 - 300 })]);
  expect(axis.columns.map((column) => [column.turn, column.from, column.to])).toEqual([[1, 0, 3], [2, 3, 4]]);
});

test("a time lies between the events around it", () => {
  const marks = [mark(0), mark(1000), mark(2000)];
  const axis = axisOf(marks);
  expect(slotOf(marks, axis, 1000)).toBe(axis.at[1]);
  expect(slotOf(marks, axis, 1500)).toBeCloseTo((axis.at[1] + axis.at[2]) / 2);
});

test("runs of one agent that overlap stand in rows, and long ones are found in any part", () => {
  const marks = [mark(0, 1, "a", "r1"), mark(0, 1, "a", "r2"), mark(0, 1, "a", "r1"), mark(0, 1, "a", "r3")];
  const runs = ["r1", "r2", "r3"].map((id) => ({ id, agent: "a", turn: 1, at: 0, status: "done" }));
  const axis = axisOf(marks);
  const spans = spansOf({ ...run, marks, runs }, axis);
  expect(spans.map((span) => [span.run.id, span.row])).toEqual([["r1", 0], ["r2", 1], ["r3", 0]]);
  expect(spansIn(spans, reachOf(spans), 2.2, 2.3).map((span) => span.run.id)).toEqual(["r1"]);
});

test("a time is said in its two largest units", () => {
  expect([0, 9_999, 61_500, 7_500_000, 259_200_000].map(time)).toEqual(["0 ms", "9,999 ms", "61.5 s", "2 h 5 min", "3 d"]);
});

test("a pipeline's agents stand below those that lead to them, also in a ring", () => {
  const nodes = [{ name: "last" }, { name: "first", is_start: true }, { name: "middle" }];
  const edges = [
    { source: "first", target: "middle" }, { source: "middle", target: "last", label: "asks" },
    { source: "last", target: "first" }, { source: "last", target: "last" }, { source: "last", target: "gone" },
  ];

  const positions = positionsOf({ name: "p", nodes, edges }, (edge) => edge.label ?? "");

  const y = Object.fromEntries(positions.nodes.map(({ node, y }) => [node.name, y]));
  expect(y.first < y.middle && y.middle < y.last).toBe(true);
  expect(positions.edges).toHaveLength(4);
  expect(lineOf([{ x: 0, y: 0 }, { x: 0, y: 4 }, { x: 4, y: 8 }, { x: 4, y: 12 }])).toBe("M 0 0 Q 0 4 2 6 Q 4 8 4 12");
});

test("a supervisor's picture that is too wide for a screen goes from left to right", () => {
  const workers = ["a", "b", "c", "d"].map((name) => ({ name }));
  const graph = { name: "p", nodes: [{ name: "lead", is_start: true }, ...workers], edges: workers.map(({ name }) => ({ source: "lead", target: name })) };

  const [wide, narrow] = [Infinity, 500].map((room) => positionsOf(graph, () => "×1", room));

  expect(wide.width).toBeGreaterThan(800);
  expect(narrow.width).toBeLessThan(500);
});

test("a message that several sections share has no one author", () => {
  const [row] = rowsOf(run, run.calls[0]);
  const joined = { ...row, agent: "desk", tokens: 4, pieces: [{ section: "history", text: "hi", tokens: 4 }] };
  expect(byAgent(run, [joined])).toEqual([{ name: "joined messages", tokens: 4 }]);
});

// Code: what one agent answered is another's user message, and what the user said is sent to the first alone.
const coded: RunData = {
  ...run, flow: "", handoffs: [], runs: [],
  texts: ["Sum this up, please.", "Three orders are late.", "So: Three orders are late. Why?", "Because of the snow."],
  messages: [
    message(0, "m1"), { ...message(1, "m2", "assistant"), agent: "reader", turn: 1 },
    { ...message(1, "m3"), turn: 1 }, { ...message(3, "m4", "assistant"), agent: "writer", turn: 1 }, { ...message(2, "m5"), turn: 1 },
  ],
  turns: [{ number: 1, session: "s1", at: 0, user: 0 }],
  calls: [
    { ...call("c1", 1, [{ section: "", message: 0, tokens: 5 }]), agent: "reader", run: "r1", reply: 1 },
    { ...call("c2", 1, [{ section: "input", message: 2, tokens: 4 }]), agent: "writer", run: "r2", reply: 3 },
    { ...call("c3", 1, [{ section: "", message: 4, tokens: 7 }]), agent: "critic", run: "r3" },
  ],
};

test("a reply that is sent on as a user message has its author", () => {
  expect(byAgent(coded, rowsOf(coded, coded.calls[0]))).toEqual([{ name: "user", tokens: 5 }]);
  expect(byAgent(coded, rowsOf(coded, coded.calls[1]))).toEqual([{ name: "reader", tokens: 4 }]);
  expect(byAgent(coded, rowsOf(coded, coded.calls[2]))).toEqual([{ name: "the pipeline", tokens: 7 }]);
});

test("what was said before a call of code, and is not in it", () => {
  const unsent = (index: number): object => saidBefore(coded, index, rowsOf(coded, coded.calls[index]));
  expect(unsent(0)).toEqual({ said: 1, unsent: [] });
  expect(unsent(1)).toEqual({ said: 2, unsent: [0] });
  expect(unsent(2)).toEqual({ said: 3, unsent: [0, 3] });
  const texts = ["Why?", ...coded.texts.slice(1)];  // A short text is there as words of its own, in no instructions.
  expect(saidBefore({ ...coded, texts }, 2, rowsOf({ ...coded, texts }, coded.calls[2])).unsent).toEqual([3]);
  texts[0] = "hy?";
  expect(saidBefore({ ...coded, texts }, 2, rowsOf({ ...coded, texts }, coded.calls[2])).unsent).toEqual([0, 3]);
});

test("what a row shows as left out is not listed again", () => {
  const rows = rowsOf(coded, coded.calls[2]);
  const out = { ...rows[0], kind: "left_out" as const, message: 0, by: "last_message" };
  expect(saidBefore(coded, 2, [...rows, out])).toEqual({ said: 3, unsent: [3] });
});

test("a reply is followed to the calls that hold its text", () => {
  expect(readersOf(coded, 0)).toEqual({ readers: [{ call: 1, sections: ["input"] }, { call: 2, sections: [] }], later: 2 });
  expect(readersOf(coded, 1)).toEqual({ readers: [], later: 1 });
  expect(readersOf(coded, 2)).toEqual({ readers: [], later: 0 });
});

test("the way of an agent to itself begins and ends at its border, inside the picture", () => {
  const { edges, nodes, width } = positionsOf({ name: "g", nodes: [{ name: "a" }], edges: [{ source: "a", target: "a" }] }, () => "again ×2");
  const { points, label } = edges[0];
  const border = nodes[0].x + NODE_WIDTH / 2;
  expect([points[0].x, points[points.length - 1].x]).toEqual([border, border]);
  expect(label.x).toBeGreaterThan(border);
  expect(width).toBeGreaterThan(label.x + 26);
});

test("a request's body comes from the changes of its agent's requests before it", () => {
  const wire = (body: unknown): Call["wire"] => ({ url: "POST host/v1", where: "", body });
  const other = { ...call("c2", 1, []), agent: "triage", wire: wire({ messages: ["other"] }) };
  const calls = [
    { ...call("c1", 1, []), wire: wire({ model: "m", messages: [{ content: "one" }] }) },
    other,
    { ...call("c3", 1, []), wire: wire({ $with: { messages: { $more: [{ content: "two" }] } } }) },
    { ...call("c4", 1, []), wire: wire({ $with: { messages: { $with: { 1: { content: "2" } } }, n: 1 } }) },
  ];
  const bodies = calls.map((_, index) => bodyOf({ ...run, calls }, index));

  expect(bodies[1]).toEqual({ messages: ["other"] });
  expect(bodies[2]).toEqual({ model: "m", messages: [{ content: "one" }, { content: "two" }] });
  expect(bodies[3]).toEqual({ model: "m", messages: [{ content: "one" }, { content: "2" }], n: 1 });
  expect(next(undefined, { $data: [["$more", 1]] })).toEqual({ $more: 1 });
  expect(next("ab", { $more: "c" })).toBe("abc");
});
