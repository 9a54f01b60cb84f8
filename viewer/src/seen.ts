// Who saw what: for each message and agent the first call that sent it, or what dropped it. Pure.
import { partsOf } from "./contexts";
import type { Part, RunData } from "./document";

export interface Cell { kind: "sent" | "edited" | "dropped" | "summarised"; call: number; by: string }

export class Matrix {
  /** One row a message that some context held or dropped, or that the log holds. */
  readonly rows: number[];
  private readonly cells = new Map<string, Cell>();

  constructor(private readonly run: RunData) {
    const covered = new Map<string, number>();
    run.calls.forEach((call, index) => {
      if ((call.base ?? -1) < 0) {
        for (const part of partsOf(run, call)) this.addPart(part, call.agent, index, covered);
      }
      for (const message of call.own ?? []) this.set(message, call.agent, index, "sent", "");
      if (call.reply !== undefined && call.reply >= 0) this.touched.add(call.reply);
    });
    run.messages.forEach((message, place) => {
      if (message.id) this.touched.add(place);
    });
    this.rows = this.ordered();
  }

  private readonly touched = new Set<number>();

  of(message: number, agent: string): Cell | undefined {
    return this.cells.get(`${message} ${agent}`);
  }

  /** Messages in the order of the conversation; a changed form stands beside its first one. */
  private ordered(): number[] {
    return [...this.touched].sort((one, other) => one - other);
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
    const cutsKey = `${key} cuts`;
    const cuts = [
      ...stream.cuts.slice(covered.get(cutsKey) ?? 0, part.cuts ?? 0), ...(part.tail_cuts ?? []),
    ];
    covered.set(cutsKey, Math.max(part.cuts ?? 0, covered.get(cutsKey) ?? 0));
    for (const cut of cuts) {
      const edited = (cut.what ?? "message") !== "message";
      this.set(cut.message, agent, call, edited ? "edited" : "dropped", cut.by);
    }
    if ((part.summary ?? -1) >= 0) this.set(part.summary!, agent, call, "sent", "");
    if ((part.rendered ?? -1) >= 0) this.set(part.rendered!, agent, call, "sent", "");
  }

  private set(message: number, agent: string, call: number, kind: Cell["kind"], by: string): void {
    this.touched.add(message);
    const key = `${message} ${agent}`;
    const known = this.cells.get(key);
    // Once sent is seen, whatever dropped it later or before.
    if (known && (known.kind === "sent" || kind !== "sent")) return;
    this.cells.set(key, { kind, call, by });
  }
}
