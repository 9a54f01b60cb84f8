// The timeline's axis: events in their order, with room between them for the time that passes.
import type { AgentRun, Mark, RunData } from "./document";

export interface Column { turn: number; start: number; from: number; to: number }

/** A pause before an event that is drawn shorter than it is. */
export interface Pause { mark: number; ms: number; from: number; to: number }

/** One run of an agent, from its first event to its last, in slots; and its row in the agent's lane. */
export interface Span { run: AgentRun; from: number; to: number; row: number }

export interface Axis {
  /** The middle of each event, in slots: the width of one event. */
  at: Float64Array;
  columns: Column[];
  pauses: Pause[];
  width: number;
}

const COLUMN_MIN = 4;
/** From here on, in milliseconds, a pause is marked as one. */
export const PAUSE_MS = 1000;

/** The room for time that passes, in slots: an hour takes twice that of a second. */
export const roomFor = (ms: number): number => (ms > 0 ? 0.35 * Math.log10(1 + ms) : 0);

export const axisOf = (marks: Mark[]): Axis => {
  const at = new Float64Array(marks.length);
  const columns: Column[] = [];
  const pauses: Pause[] = [];
  let end = 0;
  let column: Column | null = null;
  marks.forEach((mark, place) => {
    const ms = place ? mark.at - marks[place - 1].at : 0;
    const room = roomFor(ms);
    if (!column || column.turn !== mark.turn) {
      if (column) end = Math.max(end, column.start + COLUMN_MIN) + 0.5;
      if (ms >= PAUSE_MS) pauses.push({ mark: place, ms, from: end, to: end + room });
      end += room;
      column = { turn: mark.turn, start: end, from: place, to: place };
      columns.push(column);
    } else {
      if (ms >= PAUSE_MS) pauses.push({ mark: place, ms, from: end, to: end + room });
      end += room;
    }
    at[place] = end + 0.5;
    end += 1;
    column.to = place + 1;
  });
  return { at, columns, pauses, width: Math.max(end, column ? (column as Column).start + COLUMN_MIN : COLUMN_MIN) };
};

/** The index of the first element that is not below a value. */
export const firstAt = (count: number, value: number, of: (place: number) => number): number => {
  let lo = 0;
  let hi = count;
  while (lo < hi) {
    const middle = (lo + hi) >> 1;
    if (of(middle) < value) lo = middle + 1;
    else hi = middle;
  }
  return lo;
};

/** Where a time is, in slots: between the events before and after it. */
export const slotOf = (marks: Mark[], axis: Axis, ms: number): number => {
  const place = firstAt(marks.length, ms, (one) => marks[one].at);
  if (place === marks.length) return axis.width;
  if (place === 0 || marks[place].at === ms) return axis.at[place];
  const [before, after] = [marks[place - 1].at, marks[place].at];
  const [from, to] = [axis.at[place - 1], axis.at[place]];
  return from + ((to - from) * (ms - before)) / Math.max(1, after - before);
};

const ROWS_MAX = 6;

/** The runs in the order of their beginnings; those of one agent that overlap stand in rows. */
export const spansOf = (run: RunData, axis: Axis): Span[] => {
  const ends = new Map<string, [number, number]>();
  run.marks.forEach((mark, place) => {
    if (!mark.run) return;
    const known = ends.get(mark.run);
    if (known) known[1] = place;
    else ends.set(mark.run, [place, place]);
  });
  const spans: Span[] = [];
  for (const one of run.runs) {
    const own = ends.get(one.id);
    if (!own) continue;
    const last = slotOf(run.marks, axis, one.until ?? one.at);
    const from = axis.at[own[0]] - 0.5;
    spans.push({ run: one, from, to: Math.max(axis.at[own[1]] + 0.5, Math.min(last, axis.width)), row: 0 });
  }
  spans.sort((left, right) => left.from - right.from);
  const rows = new Map<string, number[]>();
  for (const span of spans) {
    const ends_ = rows.get(span.run.agent) ?? [];
    if (!ends_.length) rows.set(span.run.agent, ends_);
    let row = ends_.findIndex((end) => end <= span.from);
    if (row < 0) row = ends_.length < ROWS_MAX ? ends_.length : ROWS_MAX - 1;
    ends_[row] = Math.max(ends_[row] ?? 0, span.to);
    span.row = row;
  }
  return spans;
};

/** Those of spans, sorted by their beginnings, that a part of the axis shows. */
export const spansIn = (spans: Span[], reach: Float64Array, from: number, to: number): Span[] => {
  const found: Span[] = [];
  for (let place = firstAt(spans.length, from, (one) => reach[one]); place < spans.length; place++) {
    if (spans[place].from > to) break;
    if (spans[place].to >= from) found.push(spans[place]);
  }
  return found;
};

/** For each span the largest end up to it, so that long ones are found. */
export const reachOf = (spans: Span[]): Float64Array => {
  const reach = new Float64Array(spans.length);
  let most = 0;
  spans.forEach((span, place) => { reach[place] = most = Math.max(most, span.to); });
  return reach;
};
