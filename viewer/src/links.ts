// Links: `#refund/turn-2/call-3`. The page's place is its hash, so that a link can be passed on.
import type { Call, Index, Mark, RunData, Scenario } from "./document";

export const VIEWS = ["run", "who", "state", "pipeline", "file", "diff"] as const;
export type View = (typeof VIEWS)[number];

export interface Place {
  scenario: string;
  /** Whether the run of the base is meant, of two that are compared. */
  base: boolean;
  view: View;
  turn: number;
  call: number;
  item: string;
}

const BASE = "base";

/** The scenario's part of links into the base's run. */
export const baseOf = (scenario: string): string => `${scenario}/${BASE}`;

/** The scenario's part of links to the side that a place is on. */
export const sideOf = (place: Place): string => (place.base ? baseOf(place.scenario) : place.scenario);

/** Whether the page has the run of a scenario, and not only its line. */
export const hasRun = (scenario: Scenario): boolean => scenario.run !== undefined && scenario.run >= 0;

export const slug = (text: string): string =>
  text.toLowerCase().replace(/[^\p{L}\p{N}]+/gu, "-").replace(/^-+|-+$/g, "").slice(0, 60);

/** The scenario's part of links: its name where no other has it, else the name of its trace. */
export const keysOf = (index: Index): Map<string, Scenario> => {
  const keys = new Map<string, Scenario>();
  const times = new Map<string, number>();
  for (const one of index.scenarios) {
    const short = slug(one.name);
    times.set(short, (times.get(short) ?? 0) + 1);
  }
  for (const one of index.scenarios) {
    const short = slug(one.name);
    if (short && times.get(short) === 1) keys.set(short, one);
  }
  for (const one of index.scenarios) if (!keys.has(one.key)) keys.set(one.key, one);
  return keys;
};

/** A link that somebody cut or mistyped (`#a%`) cannot be decoded, and is taken as it is. */
const decoded = (text: string): string => {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
};

export const placeOf = (hash: string): Place => {
  const [scenario = "", ...rest] = decoded(hash.replace(/^#/, "")).split("/");
  const place: Place = { scenario, base: false, view: "run", turn: 0, call: 0, item: "" };
  for (const part of rest) {
    const counted = /^(turn|call)-(\d+)$/.exec(part);
    if (counted) place[counted[1] as "turn" | "call"] = Number(counted[2]);
    else if (part === BASE) place.base = true;
    else if ((VIEWS as readonly string[]).includes(part)) place.view = part as View;
    else if (/^(mark|finding)-\d+$/.test(part)) place.item = part;
  }
  return place;
};

export const hashOf = (place: Partial<Place> & { scenario: string }): string => {
  const parts = place.scenario.split("/");
  if (place.base) parts.push(BASE);
  if (place.view && place.view !== "run") parts.push(place.view);
  if (place.turn) parts.push(`turn-${place.turn}`);
  if (place.call) parts.push(`call-${place.call}`);
  if (place.item) parts.push(place.item);
  return `#${parts.map(encodeURIComponent).join("/")}`;
};

/** For each handoff, tool and write the call of its run that came before it; -1 for none. */
export interface Causes { handoff: number[]; tool: number[]; write: number[] }

const known = new WeakMap<RunData, Causes>();

export const causesOf = (run: RunData): Causes => {
  const found = known.get(run);
  if (found) return found;
  const causes: Causes = { handoff: [], tool: [], write: [] };
  const latest = new Map<string, number>();
  for (const mark of run.marks) {
    const id = mark.run ?? "";
    if (mark.kind === "call") latest.set(id, mark.ref ?? 0);
    else if (mark.kind in causes && mark.ref !== undefined) {
      causes[mark.kind as keyof Causes][mark.ref] = id ? (latest.get(id) ?? -1) : -1;
    }
  }
  known.set(run, causes);
  return causes;
};

/** The call that an event is, or that led to it; -1 for none. */
export const callOfMark = (run: RunData, mark: Mark): number => {
  const ref = mark.ref ?? -1;
  if (mark.kind === "call") return ref;
  const causes = causesOf(run);
  return mark.kind in causes ? (causes[mark.kind as keyof Causes][ref] ?? -1) : -1;
};

/** The number of a call in its turn, from 1, as in addresses. */
export const numberOf = (run: RunData, index: number): number => {
  const turn = run.calls[index].turn;
  let number = 1;
  for (let place = index - 1; place >= 0 && run.calls[place].turn === turn; place--) number++;
  return number;
};

/** The number of a call among its agent's calls of the turn, from 1, as in findings and claims. */
export const ownNumberOf = (run: RunData, index: number): number => {
  const { turn, agent } = run.calls[index];
  let number = 1;
  for (let place = index - 1; place >= 0 && run.calls[place].turn === turn; place--) number += Number(run.calls[place].agent === agent);
  return number;
};

export const callAt = (run: RunData, turn: number, number: number): number => {
  const first = firstOf(run.calls, turn);
  const index = first + number - 1;
  return first >= 0 && run.calls[index]?.turn === turn ? index : -1;
};

const firstOf = (calls: Call[], turn: number): number => {
  let lo = 0;
  let hi = calls.length;
  while (lo < hi) {
    const middle = (lo + hi) >> 1;
    if (calls[middle].turn < turn) lo = middle + 1;
    else hi = middle;
  }
  return calls[lo]?.turn === turn ? lo : -1;
};
