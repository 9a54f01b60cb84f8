// The marks of the timeline: the picture of each event, and its words.
import type { JSX } from "preact";
import type { Finding, Mark, RunData } from "./document";
import { counted, number, one, visible } from "./parts";

/** The height of a lane, or of one of its rows. */
export const LANE = 34;

const CROSS = "M -5 -5 L 5 5 M 5 -5 L -5 5";
const ROUND = "M 5 -2 A 5.5 5.5 0 1 0 5 3 M 5.5 -7 L 5.5 -2 L 0.5 -2";
/** Drawn and not written: no font has all of such signs. */
const SHAPES: Record<string, string> = {
  user: "M -3.2 -4 a 3.2 3.2 0 1 0 6.4 0 a 3.2 3.2 0 1 0 -6.4 0 M -6.5 7 a 6.5 6 0 0 1 13 0 z",
  tool: "M -5.5 -5.5 h 11 v 11 h -11 z",
  write: "M 0 -6 L 6 0 L 0 6 L -6 0 z",
  route: "M -6 0 h 4 L 5 -5 M -2 0 L 5 5 M 5 -5 l -4 0 M 5 -5 l -1.5 3.6 M 5 5 l -4 0 M 5 5 l -1.5 -3.6",
  fault: "M 1 -7 L -4 1 L 0 1 L -1 7 L 4 -1 L 0 -1 z",
  failure: CROSS, error: CROSS, end: CROSS, retry: ROUND, restart: `${ROUND} M -9 -9 V 9`,
  resume: "M -4 -5 L 5 0 L -4 5 z", rule: "M -5 -5 L 1 0 L -5 5 M 1 -5 L 7 0 L 1 5",
  limit: "M -5.5 -5.5 h 11 v 11 h -11 z M -5.5 5.5 L 5.5 -5.5",
  guardrail: "M -5 -6 H 5 V 0 C 5 4 2 6 0 7 C -2 6 -5 4 -5 0 z",
  judge: "M -6 -4 H 6 M 0 -6 V 6 M -4 6 H 4 M -6 -4 L -8 2 H -4 z M 6 -4 L 4 2 H 8 z",
  summary: "M 5 -6 H -5 L 1 0 L -5 6 H 5", log: "M -5 -4 H 5 M -5 0 H 5 M -5 4 H 5",
};
const SOLID = new Set(["user", "write", "tool", "resume"]);
export const NAMES: Record<string, string> = {
  user: "user", call: "model call", tool: "tool", handoff: "handoff", write: "state written",
  route: "route", fault: "planted fault", failure: "the model failed", retry: "retry",
  interrupt: "question to the user", resume: "answer of the user", restart: "restart",
  limit: "limit", guardrail: "guardrail", summary: "summary", log: "log record",
  effect: "beyond control", unread: "unread request", error: "error", end: "ended", rule: "rule",
  judge: "answer of the judge",
};
export const BAD = new Set(["fault", "failure", "limit", "guardrail", "effect", "unread", "error", "end"]);

export const markWords = (run: RunData, mark: Mark): string => {
  const name = NAMES[mark.kind] ?? mark.kind;
  const who = mark.agent ? ` of ${mark.agent}` : "";
  const when = mark.turn ? `, turn ${mark.turn}` : "";
  if (mark.kind === "user") {
    const message = run.messages[mark.ref ?? -1];
    return `user${when}: ${message && message.text >= 0 ? one(run.texts[message.text], 80) : ""}`;
  }
  if (mark.kind === "call") {
    const call = run.calls[mark.ref ?? 0];
    return `${name}${who}${when}: ${number(call.tokens ?? 0)} tokens${call.error ? `, ${call.error}` : ""}`;
  }
  if (mark.kind === "handoff") {
    const handoff = run.handoffs[mark.ref ?? 0];
    return `handoff ${handoff.source} → ${handoff.target}${when}: ${handoff.outcome}${handoff.type || handoff.payload !== undefined ? `, ${payloadWords(run, mark)}` : ""}`;
  }
  return `${name}${who}${when}${mark.text ? `: ${one(mark.text, 80)}` : ""}`;
};

/** What a handoff passes on, in a few words: its type and the keys of its payload. */
export const payloadWords = (run: RunData, mark: Mark): string => {
  const handoff = run.handoffs[mark.ref ?? 0];
  const text = run.texts[handoff.payload ?? -1] ?? "";
  let keys = "";
  try {
    const value: unknown = JSON.parse(text);
    keys = typeof value === "object" && value !== null ? Object.keys(value).join(", ") : text;
  } catch {
    keys = text;
  }
  return one([handoff.type, keys].filter(Boolean).join(": "), 80);
};

export const MarkShape = ({
  run, place, x, y, slot, until, room, findings, selected, select,
}: {
  run: RunData;
  place: number;
  x: number;
  /** The middle of an agent's lane, or of a run's row in it. */
  y: (agent: string, run?: string) => number;
  slot: number;
  /** Where the call's reply came. */
  until: number;
  /** The pixels to the right in which nothing stands. */
  room: number;
  findings?: Finding[];
  selected: boolean;
  select: (mark: number) => void;
}): JSX.Element => {
  const mark = run.marks[place];
  const middle = y(mark.agent ?? "", mark.run);
  const bad = BAD.has(mark.kind);
  const words = markWords(run, mark) + (findings?.length ? `; ${counted(findings.length, "finding")} here` : "");
  const half = Math.max(1, Math.min(12, slot / 2 - 1));
  let shape: JSX.Element;
  if (mark.kind === "call") {
    const call = run.calls[mark.ref ?? 0];
    shape = (
      <>
        {until > x + half && <rect class="reply" x={x} y={middle - 3} width={until - x} height={6} rx={3} />}
        <rect class={call.error ? "call bad" : "call"} x={x - half} y={middle - 11} width={2 * half} height={22} rx={5} />
        {slot > 20 && <text class="in-call" x={x} y={middle + 4} text-anchor="middle">{shortNumber(call.tokens ?? 0)}</text>}
      </>
    );
  } else if (mark.kind === "handoff") {
    const handoff = run.handoffs[mark.ref ?? 0];
    const target = y(handoff.target, handoff.run);
    const passed = slot > 20 && room > 30 ? one(payloadWords(run, mark), Math.floor(room / 6)) : "";
    const made = handoff.outcome === "made";
    const down = target >= middle ? 1 : -1;
    shape = (
      <g class={made ? "arrow" : "arrow bad"}>
        <circle cx={x} cy={middle} r={4} />
        {passed && <text class="passed" x={x + 9} y={middle + 4}>{visible(passed)}</text>}
        <line x1={x} y1={middle + 4 * down} x2={x} y2={target - 8 * down} />
        <path d={`M ${x - 5} ${target - 12 * down} L ${x} ${target - 3 * down} L ${x + 5} ${target - 12 * down} z`} />
        {!made && <text class="cross" x={x + 9} y={(middle + target) / 2 + 4} text-anchor="middle">✗</text>}
      </g>
    );
  } else {
    const drawn = SHAPES[mark.kind];
    const scale = Math.min(1, slot / 22);
    shape = drawn
      ? <path class={`shape ${mark.kind} ${bad ? "bad" : SOLID.has(mark.kind) ? "solid" : ""}`} d={drawn} transform={`translate(${x} ${middle}) scale(${scale})`} />
      : <text class={bad ? "letter bad" : "letter"} x={x} y={middle + 4} text-anchor="middle">{mark.kind === "interrupt" ? "?" : "!"}</text>;
  }
  return (
    <g
      class={selected ? "mark selected" : "mark"} role="button" tabIndex={selected ? 0 : -1}
      aria-label={words} aria-pressed={selected} onClick={() => select(place)}
      onKeyDown={(event) => {
        if (event.key === "Enter" || event.key === " ") {
          event.preventDefault();
          select(place);
        }
      }}
    >
      <title>{words}</title>
      <rect class="hit" x={x - slot / 2 + 1} y={middle - LANE / 2 + 1} width={slot - 2} height={LANE - 2} rx={6} />
      {shape}
      {findings && findings.length > 0 && (
        <g class={findings.some((finding) => finding.level === "failing") ? "pin" : "pin quiet"}>
          <circle cx={x + half - 1} cy={middle - 11} r={7} />
          <text x={x + half - 1} y={middle - 7} text-anchor="middle">{findings.length > 1 ? findings.length : "!"}</text>
        </g>
      )}
    </g>
  );
};

const shortNumber = (value: number): string =>
  value >= 1e6 ? `${Math.round(value / 1e5) / 10}M` : value >= 1e4 ? `${Math.round(value / 1000)}k` : value >= 1000 ? `${Math.round(value / 100) / 10}k` : `${value}`;
