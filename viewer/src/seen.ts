// Who saw what: for each message and agent the first call that sent it, or what dropped it. Pure.
import { partsOf } from "./contexts";
import type { Message, Part, RunData } from "./document";

export interface Cell { kind: "sent" | "edited" | "dropped" | "summarised"; call: number; by: string }

const RANKS: Record<Cell["kind"], number> = { dropped: 0, summarised: 1, edited: 2, sent: 3 };

const numberOf = (message: Message): number => Number((message.id ?? "").slice(1)) || 0;

export class Matrix {
  /** One row a message that some context held or dropped, or that the log holds. */
  readonly rows: number[];
  private readonly cells = new Map<string, Cell>();

  constructor(private readonly run: RunData) {
    const covered = new Map<string, number>();
    const users = new Map(run.turns.map((turn) => [turn.number, turn.user ?? -1]));
    let latest = 0;
    run.calls.forEach((call, index) => {
      const user = users.get(call.turn) ?? -1;
      latest = Math.max(latest, user < 0 ? 0 : numberOf(run.messages[user]));
      if ((call.base ?? -1) < 0) {
        for (const part of partsOf(run, call)) this.addPart(part, call.agent, index, covered);
      }
      for (const message of call.own ?? []) this.set(message, call.agent, index, "sent", "");
      // A message that was made for a context stands after the newest one before it.
      for (const place of this.fresh.splice(0)) this.order.set(place, latest + 0.5);
      if (call.reply !== undefined && call.reply >= 0) {
        this.touched.add(this.first(call.reply));
        latest = Math.max(latest, numberOf(run.messages[call.reply]));
      }
    });
    run.messages.forEach((message, place) => {
      if (message.id) this.touched.add(this.first(place));
    });
    this.rows = this.ordered();
  }

  private readonly touched = new Set<number>();
  private readonly order = new Map<number, number>();
  private readonly fresh: number[] = [];
  private readonly firsts = new Map<string, number>();
  private readonly edits = new Map<string, string>();

  of(message: number, agent: string): Cell | undefined {
    return this.cells.get(`${message} ${agent}`);
  }

  /** Messages in the order of the conversation; a changed form stands beside its first one. */
  private ordered(): number[] {
    const at = (place: number): number =>
      numberOf(this.run.messages[place]) || (this.order.get(place) ?? 0);
    return [...this.touched].sort((one, other) => at(one) - at(other) || one - other);
  }

  private addPart(
    part: Part, agent: string, call: number, covered: Map<string, number>,
  ): void {
    if (part.message !== undefined && part.message >= 0) {
      this.set(part.message, agent, call, "sent", "");
      for (const inner of part.inner ?? []) this.addPart(inner, agent, call, covered);
      return;
    }
    const number = part.stream ?? 0;
    const stream = this.run.streams[number];
    const lo = part.lo ?? 0;
    const hi = part.hi ?? 0;
    const key = `${number} ${agent}`;
    const cutsKey = `${key} cuts`;
    const cuts = [
      ...stream.cuts.slice(covered.get(cutsKey) ?? 0, part.cuts ?? 0), ...(part.tail_cuts ?? []),
    ];
    covered.set(cutsKey, Math.max(part.cuts ?? 0, covered.get(cutsKey) ?? 0));
    for (const cut of cuts) {
      if ((cut.what ?? "message") === "message") this.set(cut.message, agent, call, "dropped", cut.by);
      else this.edits.set(`${this.first(cut.message)} ${agent}`, cut.by);
    }
    // What an earlier call has shown stays seen: only what is new is looked at.
    for (let place = Math.max(lo, covered.get(key) ?? 0); place < hi; place++) {
      this.set(stream.entries[place], agent, call, "sent", "");
    }
    if ((covered.get(key) ?? 0) < lo) {
      for (let place = covered.get(key) ?? 0; place < lo; place++) {
        const kind = (part.summary ?? -1) >= 0 ? "summarised" : "dropped";
        this.set(stream.entries[place], agent, call, kind, "window");
      }
    }
    covered.set(key, Math.max(hi, covered.get(key) ?? 0));
    for (const message of part.tail ?? []) this.set(message, agent, call, "sent", "");
    if ((part.summary ?? -1) >= 0) this.set(part.summary!, agent, call, "sent", "");
    if ((part.rendered ?? -1) >= 0) this.set(part.rendered!, agent, call, "sent", "");
  }

  /** A message as it was written, of which a filter's edit is another form. */
  private first(message: number): number {
    const id = this.run.messages[message].id;
    if (!id) return message;
    const known = this.firsts.get(id);
    if (known !== undefined) return known;
    this.firsts.set(id, message);
    return message;
  }

  private set(form: number, agent: string, call: number, kind: Cell["kind"], by: string): void {
    const message = this.first(form);
    if (kind === "sent" && message !== form) {
      return this.set(message, agent, call, "edited", this.edits.get(`${message} ${agent}`) ?? "");
    }
    if (!this.touched.has(message)) this.fresh.push(message);
    this.touched.add(message);
    const key = `${message} ${agent}`;
    const known = this.cells.get(key);
    // Once sent is seen, whatever dropped it later or before.
    if (known && RANKS[known.kind] >= RANKS[kind]) return;
    this.cells.set(key, { kind, call, by });
  }
}
