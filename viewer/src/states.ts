// The state turn by turn: changes put together again, with a checkpoint now and then. Pure.
import type { Change, RunData } from "./document";

export type State = Record<string, unknown>;

export const STATE_UNSEEN = "not observable in this application";

/** Whether the run saw what state was written: without, nothing written is no fact. */
export const seesState = (run: RunData): boolean => (run.observes ?? []).includes("state");

export const changed = (old: unknown, change: Change): unknown => {
  if (change[0] === "=") return change[1];
  if (change[0] === "+") {
    const items = Array.isArray(old) ? old : [];
    return [...items.slice(change[2]), ...change[1]];
  }
  const base = (old ?? {}) as Record<string, unknown>;
  return { ...base, ...applied(base, change[1]) };
};

const applied = (state: State, changes: Record<string, Change>): State => {
  const out: State = { ...state };
  for (const [name, change] of Object.entries(changes)) out[name] = changed(state[name], change);
  return out;
};

/** Applies changes in place: what is changed belongs to ``own``, and is copied before if it does not. */
const apply = (own: WeakSet<object>, state: State, changes: Record<string, Change>): void => {
  for (const [name, change] of Object.entries(changes)) {
    const old = state[name];
    if (change[0] === "=") {
      state[name] = change[1];
    } else if (change[0] === "+") {
      const items = Array.isArray(old) ? (own.has(old) ? old : [...old]) : [];
      own.add(items);
      if (change[2]) items.splice(0, change[2]);
      for (const item of change[1]) items.push(item);
      state[name] = items;
    } else {
      const parts = old && typeof old === "object" && own.has(old) ? old : { ...(old as State) };
      own.add(parts);
      apply(own, parts as State, change[1]);
      state[name] = parts;
    }
  }
};

export class States {
  private readonly kept = new Map<number, { before: State; after: State }>();

  constructor(private readonly run: RunData) {}

  /** The state of its session before and after a turn, by the turn's index. Linear in the turns. */
  at(index: number): { before: State; after: State } {
    const known = this.kept.get(index);
    if (known) return known;
    const own = new WeakSet<object>();
    const before: State = {};
    const last = this.run.turns[index];
    for (const turn of this.run.turns.slice(0, index)) {
      if (turn.session !== last.session) continue;
      apply(own, before, turn.before ?? {});
      apply(own, before, turn.after ?? {});
    }
    apply(own, before, last.before ?? {});
    const found = { before, after: applied(before, last.after ?? {}) };
    this.kept.set(index, found);
    return found;
  }
}

/** A value as a person reads it: messages by their number and text, anything else as JSON. */
export const valueText = (run: RunData, value: unknown): string => {
  if (value === undefined) return "";
  if (typeof value === "string") return value;
  return JSON.stringify(
    value,
    (_, part: unknown) => {
      if (part && typeof part === "object" && "$message" in part) {
        return messageText(run, Number((part as { $message: number }).$message));
      }
      return part;
    },
    2,
  );
};

const numbers = new WeakMap<RunData, Map<string, number>>();

const messageText = (run: RunData, number: number): string => {
  let places = numbers.get(run);
  if (!places) {
    places = new Map();
    run.messages.forEach((message, place) => {
      if (message.id && !places!.has(message.id)) places!.set(message.id, place);
    });
    numbers.set(run, places);
  }
  const message = run.messages[places.get(`m${number}`) ?? -1];
  if (!message) return `m${number}`;
  const who = message.agent || message.tool || message.role;
  const calls = (message.calls ?? []).map((call) => ` → ${call.name}(…)`).join("");
  return `m${number} ${who}: ${message.text < 0 ? "" : run.texts[message.text]}${calls}`;
};
