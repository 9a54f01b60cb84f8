// The run as a picture: a lane an agent, turns as columns, in the order of what happened.
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Finding, Mark, RunData, Turn } from "./document";
import { number, one, time, visible } from "./parts";

const LANE = 34;
const HEAD = 40;
const PAD = 14;
const LABEL = 132;

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
const BAD = new Set(["fault", "failure", "limit", "guardrail", "effect", "unread", "error", "end"]);

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
    return `handoff ${handoff.source} → ${handoff.target}${when}: ${handoff.outcome}${handoff.type ? `, ${handoff.type}` : ""}`;
  }
  return `${name}${who}${when}${mark.text ? `: ${one(mark.text, 80)}` : ""}`;
};

interface Column { turn: number; start: number; from: number; to: number }

/** Turns as columns: where each begins, in slots, and its marks. */
export const columnsOf = (marks: Mark[]): Column[] => {
  const columns: Column[] = [];
  let start = 0;
  marks.forEach((mark, place) => {
    const last = columns[columns.length - 1];
    if (last && last.turn === mark.turn) {
      last.to = place + 1;
      return;
    }
    if (last) start = last.start + Math.max(4, last.to - last.from) + 0.5;
    columns.push({ turn: mark.turn, start, from: place, to: place + 1 });
  });
  return columns;
};

/** The parallel groups of a turn, each with its first mark and the one after its last. */
const groupsOf = (
  run: RunData, groups: Map<string, string>, column: Column,
): [string, number, number][] => {
  const spans = new Map<string, [number, number]>();
  if (groups.size) {
    for (let mark = column.from; mark < column.to; mark++) {
      const group = groups.get(run.marks[mark].run ?? "");
      if (group) spans.set(group, [spans.get(group)?.[0] ?? mark, mark + 1]);
    }
  }
  return [...spans].map(([group, [from, to]]) => [group, from, to]);
};

export const lanesOf = (run: RunData): string[] => {
  const used = new Set(run.marks.map((mark) => mark.agent || "user"));
  for (const handoff of run.handoffs) used.add(handoff.source).add(handoff.target);
  return ["user", ...run.agents.filter((agent) => used.has(agent))];
};

export const Timeline = ({
  run, selected, pinned, select,
}: {
  run: RunData;
  selected: number;
  /** Mark to the findings that are pinned to it. */
  pinned: Map<number, Finding[]>;
  select: (mark: number) => void;
}): JSX.Element => {
  const [slot, setSlot] = useState(30);
  const box = useRef<HTMLDivElement>(null);
  const [sight, setSight] = useState<[number, number]>([0, 1600]);
  const columns = useMemo(() => columnsOf(run.marks), [run]);
  const lanes = useMemo(() => lanesOf(run), [run]);
  const lane = useMemo(() => new Map(lanes.map((name, place) => [name, place])), [lanes]);
  const groups = useMemo(() => new Map(run.runs.filter((one_) => one_.group).map((one_) => [one_.id, one_.group!])), [run]);
  const last = columns[columns.length - 1];
  const width = (last ? last.start + Math.max(4, last.to - last.from) : 4) * slot + 2 * PAD;
  const height = HEAD + lanes.length * LANE + 8;
  const starts = useMemo(() => columns.map((column) => column.start), [columns]);
  const turns = useMemo(() => new Map(run.turns.map((turn) => [turn.number, turn])), [run]);
  const columnAt = (x: number): number => {
    let lo = 0;
    let hi = starts.length;
    while (lo < hi) {
      const middle = (lo + hi) >> 1;
      if (starts[middle] <= x) lo = middle + 1;
      else hi = middle;
    }
    return Math.max(0, lo - 1);
  };
  const columnOf = (mark: number): number => {
    let lo = 0;
    let hi = columns.length;
    while (lo < hi) {
      const middle = (lo + hi) >> 1;
      if (columns[middle].to <= mark) lo = middle + 1;
      else hi = middle;
    }
    return lo;
  };
  const xOf = (mark: number): number => {
    const column = columns[columnOf(mark)];
    return PAD + (column.start + mark - column.from + 0.5) * slot;
  };
  const yOf = (name: string): number => HEAD + (lane.get(name || "user") ?? 0) * LANE + LANE / 2;
  const look = (): void => {
    const element = box.current;
    if (element) setSight([element.scrollLeft, element.scrollLeft + element.clientWidth]);
  };
  useLayoutEffect(look, [run, slot]);
  useEffect(() => {
    const element = box.current;
    if (!element || selected < 0 || selected >= run.marks.length) return;
    const x = xOf(selected);
    const wide = element.clientWidth - LABEL;
    if (x < element.scrollLeft + 40 || x > element.scrollLeft + wide - 40) {
      element.scrollLeft = Math.max(0, x - wide / 3);
    }
    const y = yOf(run.marks[selected].agent ?? "");
    if (y < element.scrollTop + HEAD || y > element.scrollTop + element.clientHeight - 20) {
      element.scrollTop = Math.max(0, y - element.clientHeight / 2);
    }
    look();
  }, [selected, slot, run]);

  const firstColumn = columnAt((sight[0] - 400) / slot);
  const lastColumn = Math.min(columns.length - 1, columnAt((sight[1] + 400) / slot));
  const shown: JSX.Element[] = [];
  for (let place = firstColumn; place <= lastColumn; place++) {
    const column = columns[place];
    shown.push(<ColumnHead key={`h${place}`} run={run} turn={turns.get(column.turn)} column={column} slot={slot} height={height} />);
    for (const [group, from, to] of groupsOf(run, groups, column)) {
      const rows = run.marks.slice(from, to).filter((mark) => groups.get(mark.run ?? "") === group)
        .map((mark) => yOf(mark.agent ?? ""));
      const top = Math.min(...rows) - LANE / 2 + 2;
      shown.push(
        <g class="parallel" key={`g${from}`}>
          <title>{`side by side: parallel group ${group}`}</title>
          <rect x={xOf(from) - slot / 2 + 1} y={top} width={(to - from) * slot - 2} height={Math.max(...rows) + LANE / 2 - 2 - top} rx={6} />
        </g>,
      );
    }
    for (let mark = column.from; mark < column.to; mark++) {
      shown.push(
        <MarkShape
          key={mark} run={run} place={mark} x={xOf(mark)} y={yOf} slot={slot}
          findings={pinned.get(mark)} selected={mark === selected} select={select}
        />,
      );
    }
  }
  return (
    <section class="timeline-box" aria-label="Timeline">
      <div class="tools">
        <span class="hint">
          {number(run.marks.length)} events (j, k; findings n, p) · a number is a call's tokens · <i class="key-tool">■</i> tool
          {" "}· <i class="key-write">◆</i> state written · <i class="key-handoff">↓</i> handoff · all others say what they are
        </span>
        <button onClick={() => setSlot(Math.max(12, slot - 6))} aria-label="Zoom out">−</button>
        <button onClick={() => setSlot(Math.min(72, slot + 6))} aria-label="Zoom in">+</button>
      </div>
      <div class="timeline" ref={box} onScroll={look} tabIndex={0} role="group" aria-label="Lanes of agents over turns">
        <div class="lanes" style={{ height: `${height}px`, width: `${LABEL}px` }}>
          <div class="corner" style={{ height: `${HEAD}px` }}>turn</div>
          {lanes.map((name) => (
            <div class="lane-name" style={{ height: `${LANE}px` }} title={name}>{visible(one(name, 24))}</div>
          ))}
        </div>
        <svg width={width} height={height} role="group" aria-label="Events">
          {lanes.map((name, place) => (
            <rect class={place % 2 ? "lane odd" : "lane"} x={0} y={HEAD + place * LANE} width="100%" height={LANE}><title>{name}</title></rect>
          ))}
          {shown}
        </svg>
      </div>
    </section>
  );
};

const ColumnHead = ({
  run, turn, column, slot, height,
}: {
  run: RunData; turn: Turn | undefined; column: Column; slot: number; height: number;
}): JSX.Element => {
  const x = PAD + column.start * slot;
  const sessions = new Set([run.turns[0]?.session, run.turns[run.turns.length - 1]?.session]).size > 1;
  const room = Math.floor((Math.max(4, column.to - column.from) * slot) / 7);
  const message = run.messages[turn?.user ?? -1];
  const answer = run.marks.slice(column.from, column.to).find((mark) => mark.kind === "resume");
  const said = message && message.text >= 0 ? run.texts[message.text] : (answer?.text ?? "");
  return (
    <g class="column">
      <line x1={x - 3} x2={x - 3} y1={4} y2={height} />
      <text x={x + 2} y={16}>
        {column.turn ? one(`${column.turn}${sessions ? ` · ${turn?.session ?? ""}` : ""} · ${time(turn?.at ?? 0)}`, room) : "before"}
      </text>
      <text class="said" x={x + 2} y={32}>{one(said, room)}</text>
    </g>
  );
};

const MarkShape = ({
  run, place, x, y, slot, findings, selected, select,
}: {
  run: RunData;
  place: number;
  x: number;
  y: (lane: string) => number;
  slot: number;
  findings?: Finding[];
  selected: boolean;
  select: (mark: number) => void;
}): JSX.Element => {
  const mark = run.marks[place];
  const middle = y(mark.agent ?? "");
  const bad = BAD.has(mark.kind);
  const words = markWords(run, mark) + (findings?.length ? `; ${findings.length} findings here` : "");
  const half = Math.min(12, slot / 2 - 1);
  let shape: JSX.Element;
  if (mark.kind === "call") {
    const call = run.calls[mark.ref ?? 0];
    shape = (
      <>
        <rect class={call.error ? "call bad" : "call"} x={x - half} y={middle - 11} width={2 * half} height={22} rx={5} />
        {slot > 20 && <text class="in-call" x={x} y={middle + 4} text-anchor="middle">{shortNumber(call.tokens ?? 0)}</text>}
      </>
    );
  } else if (mark.kind === "handoff") {
    const handoff = run.handoffs[mark.ref ?? 0];
    const target = y(handoff.target);
    const made = handoff.outcome === "made";
    const down = target >= middle ? 1 : -1;
    shape = (
      <g class={made ? "arrow" : "arrow bad"}>
        <circle cx={x} cy={middle} r={4} />
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
  value >= 1e6 ? `${Math.round(value / 1e5) / 10}M` : value >= 1000 ? `${Math.round(value / 100) / 10}k` : `${value}`;
