// The run as a picture: a lane an agent, turns as columns, events in order with room for the time that passes.
import type { JSX } from "preact";
import { useEffect, useLayoutEffect, useMemo, useRef, useState } from "preact/hooks";
import { axisOf, type Axis, type Column, firstAt, reachOf, slotOf, type Span, spansIn, spansOf } from "./axis";
import type { Finding, Mark, RunData, Turn } from "./document";
import { LANE, MarkShape } from "./marks";
import { named, inMiddle, number, one, time, visible } from "./parts";
import { seenOf, Strip } from "./strip";

const HEAD = 54;
const PAD = 14;
const LABEL = 132;
const SLOT = 30;
const SLOT_MIN = 3;
const SLOT_MAX = 72;
const ZOOM = 1.35;
/** What is beyond the window at each side and drawn all the same, in pixels; drawn anew after each half of it. */
const MARGIN = 600;

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

/** Everything about a run's picture that does not change while somebody looks at it. */
class Layout {
  readonly axis: Axis;
  readonly spans: Span[];
  readonly reach: Float64Array;
  readonly lanes: string[];
  readonly height: number;
  readonly spanOf = new Map<string, Span>();
  readonly groups: Map<string, string>;
  readonly turns: Map<number, Turn>;
  /** Lane to its top, and to its number of rows. */
  readonly tops = new Map<string, number>();
  readonly rows = new Map<string, number>();

  constructor(readonly run: RunData) {
    this.axis = axisOf(run.marks);
    this.spans = spansOf(run, this.axis);
    this.reach = reachOf(this.spans);
    this.lanes = lanesOf(run);
    this.groups = new Map(run.runs.filter((one_) => one_.group).map((one_) => [one_.id, one_.group!]));
    this.turns = new Map(run.turns.map((turn) => [turn.number, turn]));
    for (const span of this.spans) {
      this.spanOf.set(span.run.id, span);
      this.rows.set(span.run.agent, Math.max(this.rows.get(span.run.agent) ?? 1, span.row + 1));
    }
    let top = HEAD;
    for (const lane of this.lanes) {
      this.tops.set(lane, top);
      top += (this.rows.get(lane) ?? 1) * LANE;
    }
    this.height = top + 8;
  }

  /** The middle of an agent's lane, or of the row of one of its runs. */
  y = (agent: string, run?: string): number => {
    const span = run ? this.spanOf.get(run) : undefined;
    const row = span && span.run.agent === agent ? span.row : 0;
    return (this.tops.get(agent || "user") ?? HEAD) + row * LANE + LANE / 2;
  };

  columnAt(slot: number): number {
    return Math.max(0, firstAt(this.axis.columns.length, slot + 1e-9, (place) => this.axis.columns[place].start) - 1);
  }
}

export const Timeline = ({
  run, selected, pinned, select, zooms,
}: {
  run: RunData;
  selected: number;
  /** Mark to the findings that are pinned to it. */
  pinned: Map<number, Finding[]>;
  select: (mark: number) => void;
  /** Set here: zooms in (1), out (-1), or to the whole run (0). */
  zooms: { zoom: (step: number) => void };
}): JSX.Element => {
  const [slot, setSlot] = useState(SLOT);
  const box = useRef<HTMLDivElement>(null);
  const [sight, setSight] = useState<[number, number]>([0, 1600]);
  const layout = useMemo(() => new Layout(run), [run]);
  const anchor = useRef<[number, number] | null>(null);
  const { axis, height } = layout;
  const width = axis.width * slot + 2 * PAD;
  const xAt = (slots: number): number => PAD + slots * slot;
  const from = (sight[0] - MARGIN - PAD) / slot;
  const to = (sight[1] + MARGIN - PAD) / slot;
  const xOf = (mark: number): number => xAt(axis.at[mark]);
  const look = (): void => {
    const element = box.current;
    if (!element) return;
    const step = MARGIN / 2;
    const from = Math.floor(element.scrollLeft / step) * step;
    const to = from + Math.ceil(element.clientWidth / step + 1) * step;
    setSight((old) => (old[0] === from && old[1] === to ? old : [from, to]));
  };
  /** The size at which the whole run is in sight; a short one is not made larger for that. */
  const wholeOf = (element: HTMLElement): number => Math.min(SLOT, (seenOf(element) - 2 * PAD) / axis.width);
  /** Zooms, and keeps what is at a place of the window there. */
  const zoom = (next: number, at?: number): void => {
    const element = box.current;
    if (!element) return;
    const most = Math.min(SLOT_MAX, 12e6 / axis.width);
    // Further out than the whole run there is nothing to see.
    const size = Math.max(SLOT_MIN, wholeOf(element), Math.min(most, next));
    const where = at ?? seenOf(element) / 2;
    anchor.current = [(element.scrollLeft + where - PAD) / slot, where];
    setSlot(size);
  };
  zooms.zoom = (step) => {
    zoom(step ? slot * ZOOM ** step : 0);
  };
  useLayoutEffect(() => {
    if (anchor.current && box.current) box.current.scrollLeft = PAD + anchor.current[0] * slot - anchor.current[1];
    anchor.current = null;
    look();
  }, [run, slot]);
  useEffect(() => {
    const element = box.current;
    if (!element || selected < 0 || selected >= run.marks.length) return;
    const x = xOf(selected);
    const wide = seenOf(element);
    if (x < element.scrollLeft + 40 || x > element.scrollLeft + wide - 40) {
      element.scrollLeft = Math.max(0, x - wide / 3);
    }
    const y = layout.y(run.marks[selected].agent ?? "", run.marks[selected].run);
    if (y < element.scrollTop + HEAD || y > element.scrollTop + element.clientHeight - 20) {
      element.scrollTop = Math.max(0, y - element.clientHeight / 2);
    }
    look();
  }, [selected, run]);
  useEffect(() => {
    const element = box.current;
    if (!element) return;
    // Preact's own listener would be passive, and could not keep the browser from zooming.
    const turn = (event: WheelEvent): void => {
      if (!event.ctrlKey && !event.metaKey) return;
      event.preventDefault();
      const at = event.clientX - element.getBoundingClientRect().right + seenOf(element);
      zoom(slot * ZOOM ** (event.deltaY < 0 ? 1 : -1), at);
    };
    element.addEventListener("wheel", turn, { passive: false });
    return () => element.removeEventListener("wheel", turn);
  }, [slot, run]);
  const drag = (event: PointerEvent): void => {
    const element = box.current;
    if (!element || event.pointerType !== "mouse" || event.button || (event.target as Element).closest(".mark")) return;
    const [x, y, left, top] = [event.clientX, event.clientY, element.scrollLeft, element.scrollTop];
    const move = (moved: PointerEvent): void => {
      element.scrollLeft = left - (moved.clientX - x);
      element.scrollTop = top - (moved.clientY - y);
    };
    const end = (): void => {
      removeEventListener("pointermove", move);
      removeEventListener("pointerup", end);
    };
    addEventListener("pointermove", move);
    addEventListener("pointerup", end);
  };
  return (
    <section class="timeline-box" aria-label="Timeline">
      <div class="tools">
        <span class="hint">
          {number(run.marks.length)} events (j, k; findings n, p) · numbers: tokens · <i class="key-tool">■</i> tool
          {" "}· <i class="key-write">◆</i> state written · <i class="key-handoff">↓</i> handoff · hover for the rest
        </span>
        <button onClick={() => zooms.zoom(-1)} aria-label="Zoom out">−</button>
        <button onClick={() => zooms.zoom(0)} aria-label="Whole run">↔</button>
        <button onClick={() => zooms.zoom(1)} aria-label="Zoom in">+</button>
      </div>
      <Strip run={run} layout={layout} slot={slot} pinned={pinned} box={box} pad={PAD} width={width} />
      <div class="timeline" ref={box} onScroll={look} onPointerDown={drag} tabIndex={0} role="group" aria-label="Lanes of agents over turns">
        <div class="lanes" style={{ height: `${height}px`, width: `${LABEL}px` }}>
          <div class="corner" style={{ height: `${HEAD}px` }}>turn<br />time</div>
          {layout.lanes.map((name) => (
            <div class="lane-name" style={{ height: `${LANE * (layout.rows.get(name) ?? 1)}px` }} title={name}>{named(inMiddle(name, 32))}</div>
          ))}
        </div>
        <div class="sheet">
        <svg class="heads" width={width} height={HEAD} aria-hidden="true">
          <Heads run={run} layout={layout} slot={slot} from={from} to={to} x={xAt} />
        </svg>
        <svg class="events" width={width} height={height} style={{ marginTop: `${-HEAD}px` }} role="group" aria-label="Events">
          {layout.lanes.map((name, place) => (
            <rect class={place % 2 ? "lane odd" : "lane"} x={0} y={layout.tops.get(name)} width="100%" height={LANE * (layout.rows.get(name) ?? 1)}><title>{name}</title></rect>
          ))}
          <Part run={run} layout={layout} slot={slot} from={from} to={to} selected={selected} pinned={pinned} select={select} x={xAt} />
        </svg>
        </div>
      </div>
    </section>
  );
};

/** Turns, what the user said, and times, above the lanes; they stay in sight where the lanes scroll. */
const Heads = ({
  run, layout, slot, from, to, x: xAt,
}: {
  run: RunData; layout: Layout; slot: number; from: number; to: number; x: (slots: number) => number;
}): JSX.Element => {
  const { axis } = layout;
  const shown: JSX.Element[] = [];
  const last = Math.min(axis.columns.length - 1, layout.columnAt(to));
  for (let place = layout.columnAt(from); place <= last; place++) {
    const column = axis.columns[place];
    const next = axis.columns[place + 1]?.start ?? axis.width;
    shown.push(<ColumnHead key={`h${place}`} run={run} turn={layout.turns.get(column.turn)} column={column} x={xAt(column.start)} wide={(next - column.start) * slot} />);
    if (column.to - column.from <= COLUMN_MAX * 5) shown.push(...ticksOf(run.marks, axis, column, place, xAt, slot));
  }
  for (let place = firstAt(axis.pauses.length, from, (one_) => axis.pauses[one_].to); place < axis.pauses.length; place++) {
    const pause = axis.pauses[place];
    if (pause.from > to) break;
    const wide = (pause.to - pause.from) * slot;
    const words = time(pause.ms);
    if (wide > words.length * 5.6) {
      shown.push(<text class="pause-words" key={`w${place}`} x={xAt(pause.from) + wide / 2} y={HEAD - 6} text-anchor="middle">{words}</text>);
    }
  }
  return <>{shown}</>;
};

/** What a part of the axis shows, between two slots. */
const Part = ({
  run, layout, slot, from, to, selected, pinned, select, x: xAt,
}: {
  run: RunData; layout: Layout; slot: number; from: number; to: number; selected: number;
  pinned: Map<number, Finding[]>; select: (mark: number) => void; x: (slots: number) => number;
}): JSX.Element => {
  const { axis, height } = layout;
  const shown: JSX.Element[] = [];
  // A column that was drawn is the same object in the next drawing, and is not compared again.
  const drawn = useMemo(() => ({ columns: new Map<number, { selected: number; element: JSX.Element }>() }), [layout, slot, pinned]);
  const kept: typeof drawn.columns = new Map();
  for (let place = firstAt(axis.pauses.length, from, (one_) => axis.pauses[one_].to); place < axis.pauses.length; place++) {
    const pause = axis.pauses[place];
    if (pause.from > to) break;
    const words = time(pause.ms);
    shown.push(
      <g class="pause" key={`w${place}`}>
        <title>{`${words} pass here; the room for them is shortened`}</title>
        <rect x={xAt(pause.from)} y={HEAD} width={(pause.to - pause.from) * slot} height={height - HEAD} />
      </g>,
    );
  }
  for (const span of spansIn(layout.spans, layout.reach, from, to)) {
    shown.push(<SpanShape key={`s${span.run.id}`} span={span} layout={layout} slot={slot} x={xAt} />);
  }
  const last = Math.min(axis.columns.length - 1, layout.columnAt(to));
  for (let place = layout.columnAt(from); place <= last; place++) {
    const column = axis.columns[place];
    const long = column.to - column.from > COLUMN_MAX;
    const here = selected >= column.from && selected < column.to ? selected : -1;
    const known = long ? undefined : drawn.columns.get(place);
    const one_ = known && known.selected === here ? known : {
      selected: here,
      element: <ColumnShape key={`c${place}`} run={run} layout={layout} place={place} slot={slot} from={long ? from : -Infinity} to={long ? to : Infinity} selected={here} pinned={pinned} select={select} x={xAt} />,
    };
    kept.set(place, one_);
    shown.push(one_.element);
  }
  drawn.columns = kept;
  return <>{shown}</>;
};

/** A turn with more events than this is drawn in parts. */
const COLUMN_MAX = 200;

/** One turn: its head, its times, its events, between two slots. */
const ColumnShape = ({
  run, layout, place, slot, from, to, selected, pinned, select, x: xAt,
}: {
  run: RunData; layout: Layout; place: number; slot: number; from: number; to: number; selected: number;
  pinned: Map<number, Finding[]>; select: (mark: number) => void; x: (slots: number) => number;
}): JSX.Element => {
  const { axis, groups, y, height } = layout;
  const shown: JSX.Element[] = [];
  const column = axis.columns[place];
  shown.push(<line class="edge" key="edge" x1={xAt(column.start) - 3} x2={xAt(column.start) - 3} y1={HEAD} y2={height} />);
  for (const [group, first, end] of groupsOf(run, groups, column)) {
    const rows = run.marks.slice(first, end).filter((mark) => groups.get(mark.run ?? "") === group)
      .map((mark) => y(mark.agent ?? "", mark.run));
    const top = Math.min(...rows) - LANE / 2 + 2;
    shown.push(
      <g class="parallel" key={`g${first}`}>
        <title>{`side by side: parallel group ${group}`}</title>
        <rect x={xAt(axis.at[first]) - slot / 2 + 1} y={top} width={(axis.at[end - 1] - axis.at[first] + 1) * slot - 2} height={Math.max(...rows) + LANE / 2 - 2 - top} rx={6} />
      </g>,
    );
  }
  const begin = Math.max(column.from, firstAt(column.to, from, (mark) => axis.at[mark]));
  for (let mark = begin; mark < column.to && axis.at[mark] < to; mark++) {
    const call = run.marks[mark].kind === "call" ? run.calls[run.marks[mark].ref ?? 0] : null;
    shown.push(
      <MarkShape
        key={mark} run={run} place={mark} x={xAt(axis.at[mark])} y={y} slot={slot}
        until={call?.until !== undefined ? xAt(slotOf(run.marks, axis, call.until)) : 0}
        room={run.marks[mark].kind === "handoff" ? roomAfter(run.marks, axis, mark, column, axis.columns[place + 1]?.start ?? axis.width + 8) * slot - 16 : 0}
        findings={pinned.get(mark)} selected={mark === selected} select={select}
      />,
    );
  }
  return <g>{shown}</g>;
};

/** The slots after a mark until something stands in its lane again, or the next turn begins. */
const roomAfter = (marks: Mark[], axis: Axis, mark: number, column: Column, end: number): number => {
  for (let next = mark + 1; next < column.to; next++) {
    if ((marks[next].agent ?? "") === (marks[mark].agent ?? "") || next - mark > 9) return axis.at[next] - axis.at[mark] - 0.5;
  }
  return end - axis.at[mark];
};

/** The times at which something happened, as far as there is room for their words. */
const ticksOf = (
  marks: Mark[], axis: Axis, column: Column, key: number, x: (slots: number) => number, slot: number,
): JSX.Element[] => {
  const ticks: JSX.Element[] = [];
  const began = marks[column.from].at;
  let free = -Infinity;
  for (let place = column.from + 1; place < column.to; place++) {
    if (marks[place].at === marks[place - 1].at) continue;
    const at = x(axis.at[place] - 0.5);
    const words = `+${time(marks[place].at - began)}`;
    const fits = at > free && slot > 8;
    if (fits) free = at + words.length * 6 + 6;
    ticks.push(
      <g class="tick" key={`t${key}-${place}`}>
        <line x1={at} x2={at} y1={HEAD - 4} y2={HEAD} />
        {fits && <text x={at} y={HEAD - 6}>{words}</text>}
      </g>,
    );
  }
  return ticks;
};

const STATUS: Record<string, string> = { failed: "bad", timed_out: "bad", cancelled: "bad" };

/** A run from its first event to its last, with the ways that led to it. */
const SpanShape = ({
  span, layout, slot, x,
}: { span: Span; layout: Layout; slot: number; x: (slots: number) => number }): JSX.Element => {
  const { run } = span;
  const middle = layout.y(run.agent, run.id);
  const from = x(span.from) + 2;
  const ended = run.until ?? run.at;
  const words = `run ${run.id} of ${run.agent}: ${run.status.replace("_", " ")}, ${time(run.at)}${ended > run.at ? ` to ${time(ended)}` : ""}`;
  return (
    <g class={`span ${STATUS[run.status] ?? ""}`}>
      <title>{words}</title>
      <rect x={from} y={middle - LANE / 2 + 4} width={Math.max(2, (span.to - span.from) * slot - 4)} height={LANE - 8} rx={7} />
      {(run.after ?? []).map((id) => {
        const before = layout.spanOf.get(id);
        if (!before || before.run.agent === run.agent) return null;
        const [left, top] = [Math.min(x(before.to), from), layout.y(before.run.agent, id)];
        const side = Math.sign(middle - top);
        // Down the gap between the boxes, then to the left border; where there is no room, to the upper or lower one.
        const isNear = from - left < 12;
        const [end, edge] = [from + 7, middle - side * (LANE / 2 - 4)];
        return (
          <g class="way" key={id}>
            <title>{`${before.run.agent} → ${run.agent}`}</title>
            <path d={isNear ? `M ${left - 2} ${top} H ${end} V ${edge}` : `M ${left - 2} ${top} H ${left} V ${middle} H ${from}`} />
            <path class="tip" d={isNear ? `M ${end} ${edge} l -3.5 ${-7 * side} h 7 z` : `M ${from} ${middle} l -7 -3.5 v 7 z`} />
          </g>
        );
      })}
    </g>
  );
};

const ColumnHead = ({
  run, turn, column, x, wide,
}: {
  run: RunData; turn: Turn | undefined; column: Column; x: number; wide: number;
}): JSX.Element => {
  const sessions = new Set([run.turns[0]?.session, run.turns[run.turns.length - 1]?.session]).size > 1;
  const room = Math.floor(wide / 7);
  const message = run.messages[turn?.user ?? -1];
  const answer = run.marks.slice(column.from, column.to).find((mark) => mark.kind === "resume");
  const said = message && message.text >= 0 ? run.texts[message.text] : (answer?.text ?? "");
  return (
    <g class="column">
      <line x1={x - 3} x2={x - 3} y1={4} y2={HEAD} />
      {room > 1 && (
        <text x={x + 2} y={16}>
          {column.turn ? one(`${column.turn}${sessions ? ` · ${turn?.session ?? ""}` : ""} · ${time(turn?.at ?? 0)}`, room) : one("before", room)}
        </text>
      )}
      {room > 4 && <text class="said" x={x + 2} y={31}>{visible(one(said, room))}</text>}
    </g>
  );
};
