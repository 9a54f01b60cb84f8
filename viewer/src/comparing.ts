// Two contexts of one agent: what came, went and moved.
import { isSent, type Row } from "./contexts";
import type { Call, Offer, RunData } from "./document";

export type Fate = "same" | "came" | "moved" | "changed" | "went";

export interface Comparison {
  /** For each sent row of the later call what became of it since; "went" for what it left out. */
  fates: Map<Row, Fate>;
  /** Rows of the earlier call that are gone, each with the index of the sent row that follows it. */
  went: { row: Row; before: number }[];
}

const wires = new WeakMap<RunData, string[]>();

/** What a provider reads of a message, as a key; made once for each message of the run. */
const wireOf = (run: RunData, row: Row): string => {
  let known = wires.get(run);
  if (!known) wires.set(run, (known = []));
  if (row.message < 0) return JSON.stringify([row.role, row.text]);
  return (known[row.message] ??= JSON.stringify([row.role, row.text, row.calls ?? [], row.tool]));
};

const MIDDLE_MAX = 600;

/** Pairs of equal items, in order, as indices: the ends, then the longest common part between. */
const paired = (one: string[], other: string[]): [number, number][] => {
  let lo = 0;
  while (lo < one.length && lo < other.length && one[lo] === other[lo]) lo++;
  let end = 0;
  while (end < one.length - lo && end < other.length - lo
    && one[one.length - 1 - end] === other[other.length - 1 - end]) end++;
  const pairs: [number, number][] = [];
  for (let place = 0; place < lo; place++) pairs.push([place, place]);
  const left = one.slice(lo, one.length - end);
  const right = other.slice(lo, other.length - end);
  if (left.length && right.length && left.length <= MIDDLE_MAX && right.length <= MIDDLE_MAX) {
    const table = Array.from({ length: left.length + 1 }, () => new Uint16Array(right.length + 1));
    for (let i = left.length - 1; i >= 0; i--) {
      for (let j = right.length - 1; j >= 0; j--) {
        table[i][j] = left[i] === right[j]
          ? table[i + 1][j + 1] + 1 : Math.max(table[i + 1][j], table[i][j + 1]);
      }
    }
    for (let i = 0, j = 0; i < left.length && j < right.length;) {
      if (left[i] === right[j]) pairs.push([lo + i++, lo + j++]);
      else if (table[i + 1][j] >= table[i][j + 1]) i++;
      else j++;
    }
  }
  for (let place = end; place > 0; place--) pairs.push([one.length - place, other.length - place]);
  return pairs;
};

export const compared = (
  run: RunData, earlierRows: Row[], laterRows: Row[],
): Comparison => {
  const old = earlierRows.filter(isSent);
  const now = laterRows.filter(isSent);
  const oldWires = old.map((row) => wireOf(run, row));
  const nowWires = now.map((row) => wireOf(run, row));
  const pairs = paired(oldWires, nowWires);
  const kept = new Set(pairs.map(([place]) => place));
  const fates = new Map<Row, Fate>(now.map((row) => [row, "came" as Fate]));
  for (const [, place] of pairs) fates.set(now[place], "same");
  const loose = new Map<string, number[]>();
  old.forEach((_, place) => {
    if (!kept.has(place)) loose.set(oldWires[place], [...(loose.get(oldWires[place]) ?? []), place]);
  });
  now.forEach((row, place) => {
    if (fates.get(row) !== "came") return;
    const from = loose.get(nowWires[place])?.shift();
    if (from !== undefined) {
      fates.set(row, "moved");
      kept.add(from);
      return;
    }
    const twin = old.findIndex((one, at) =>
      !kept.has(at) && one.section === row.section && one.role === row.role
      && (row.role === "system" || idOf(run, one) === idOf(run, row)) && idOf(run, one) !== null);
    if (twin >= 0) {
      fates.set(row, "changed");
      kept.add(twin);
    }
  });
  const next = new Map(pairs);
  const dropped = new Map(
    laterRows.filter((row) => !isSent(row) && row.message >= 0).map((row) => [row.message, row]));
  const went: { row: Row; before: number }[] = [];
  let before = 0;
  old.forEach((row, place) => {
    before = next.has(place) ? next.get(place)! + 1 : before;
    if (kept.has(place)) return;
    const out = dropped.get(row.message);
    if (out) fates.set(out, "went");
    else went.push({ row, before });
  });
  return { fates, went };
};

const idOf = (run: RunData, row: Row): string | null =>
  row.message < 0 ? null : (run.messages[row.message].id ?? "");

/** The tools that a call offers, in order; equal definitions are one object. */
export const offersOf = (run: RunData, call: Call): Offer[] =>
  (run.toolsets[call.tools ?? -1] ?? []).map((place) => run.offers[place]);

/** What a model is sent of a tool beside its name. */
export const definitionOf = (run: RunData, { description, parameters, strict }: Offer): string =>
  [description, parameters === undefined || parameters < 0 ? "" : run.texts[parameters], strict ? "strict" : ""]
    .filter(Boolean).join("\n");

export interface LineEdit { kind: "same" | "came" | "went"; text: string }

/** Two texts line by line. */
export const lineDiff = (one: string, other: string): LineEdit[] => {
  const linesOf = (text: string): string[] => (text ? text.split("\n") : []);
  const left = linesOf(one);
  const right = linesOf(other);
  // The comma after a list's last item is no difference.
  const bare = (lines: string[]): string[] => lines.map((line) => line.replace(/,$/, ""));
  const pairs = paired(bare(left), bare(right));
  const edits: LineEdit[] = [];
  let i = 0;
  let j = 0;
  for (const [a, b] of [...pairs, [left.length, right.length]]) {
    while (i < a) edits.push({ kind: "went", text: left[i++] });
    while (j < b) edits.push({ kind: "came", text: right[j++] });
    if (a < left.length) edits.push({ kind: "same", text: right[b] });
    i = a + 1;
    j = b + 1;
  }
  return edits;
};
