// The state turn by turn: what each channel held before and after, and who wrote it.
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { RunData, Write } from "./document";
import { hashOf } from "./links";
import { counted, Diff, one, Text, visible } from "./parts";
import { seesState, STATE_UNSEEN, States, valueText } from "./states";
import { WriteDetails } from "./details";

export const State = ({ run, turn, scenario }: { run: RunData; turn: number; scenario: string }): JSX.Element => {
  const states = useMemo(() => new States(run), [run]);
  const [all, setAll] = useState(false);
  const found = run.turns.findIndex((one_) => one_.number === turn);
  const index = found < 0 ? Math.max(0, firstWithWrites(run)) : found;
  if (!run.turns.length) return <p class="empty">The run had no turn.</p>;
  const now = run.turns[index];
  const { before, after } = states.at(index);
  const writes = run.writes.filter((write) => write.turn === now.number);
  const names = [...new Set([...Object.keys(run.channels), ...Object.keys(before), ...Object.keys(after)])];
  const texts = names.map((name) => ({
    name, before: valueText(run, before[name]), after: valueText(run, after[name]),
    by: writes.filter((write) => name in write.update),
  }));
  const rows = texts.filter((row) => all || row.before !== row.after || row.by.length);
  const at = (number: number): string => hashOf({ scenario, view: "state", turn: number });
  return (
    <section class="panel" aria-label="State">
      <h2>State in turn {now.number}<small> session {now.session} · {counted(texts.filter((row) => row.before !== row.after).length, "channel")} changed</small></h2>
      <nav class="tools" aria-label="Turns">
        {index > 0 && <a class="button" href={at(run.turns[index - 1].number)}>← turn {run.turns[index - 1].number}</a>}
        {index + 1 < run.turns.length && <a class="button" href={at(run.turns[index + 1].number)}>turn {run.turns[index + 1].number} →</a>}
        <label>turn <input type="number" min={1} max={run.turns.length} value={now.number} onChange={(event) => { location.hash = at(Number(event.currentTarget.value)); }} /></label>
        <label><input type="checkbox" checked={all} onChange={() => setAll(!all)} /> show unchanged channels</label>
      </nav>
      {!rows.length && <p class="empty">{seesState(run) ? "No channel was written in this turn." : `State is ${STATE_UNSEEN}.`}</p>}
      {rows.map((row) => <Channel run={run} row={row} scenario={scenario} />)}
    </section>
  );
};

const firstWithWrites = (run: RunData): number =>
  run.turns.findIndex((turn) => Object.keys(turn.after ?? {}).length > 0);

const Channel = ({
  run, row, scenario,
}: {
  run: RunData;
  row: { name: string; before: string; after: string; by: Write[] };
  scenario: string;
}): JSX.Element => {
  const [reducer, scope] = run.channels[row.name] ?? ["", ""];
  const conflict = conflicts(row.by, reducer);
  return (
    <article class="channel">
      <h3>
        {visible(row.name)}
        <small>{reducer && ` reducer ${reducer}, scope ${scope}`}{row.by.length ? ` · ${writersOf(row.name, row.by)}` : " · not written"}</small>
      </h3>
      {conflict && <p class="bad">{visible(conflict)}</p>}
      {row.before === row.after
        ? <Text text={row.after || "(empty)"} code />
        : row.before ? <Diff one={row.before} other={row.after} /> : <Diff one="" other={row.after} />}
      {row.by.length > 0 && (
        <details>
          <summary>{row.by.map((write) => `${write.agent || write.cause} wrote ${one(run.texts[write.update[row.name]] ?? "null", 60)}`).join("; ")}</summary>
          {row.by.map((write) => (
            <>
              <p>{write.agent ? `${write.agent}, run ${write.run}` : write.cause}, at {write.at} ms{write.group ? `, in the parallel group ${write.group}` : ""}{write.handoff ? `, by the contract of handoff ${write.handoff}` : ""}</p>
              <WriteDetails run={run} write={{ ...write, update: { [row.name]: write.update[row.name] } }} scenario={scenario} />
            </>
          ))}
        </details>
      )}
    </article>
  );
};

const writersOf = (name: string, writes: Write[]): string => {
  const who = (some: Write[]): string => [...new Set(some.map((write) => write.agent || write.cause))].join(", ");
  const idle = writes.filter((write) => write.idle?.includes(name));
  const real = writes.filter((write) => !idle.includes(write));
  return [real.length && `written by ${who(real)}`, idle.length && `an update of ${who(idle)} changed nothing`].filter(Boolean).join(" · ");
};

/** Parallel runs that write one channel that keeps only the last value. */
const conflicts = (writes: Write[], reducer: string): string => {
  if (reducer && reducer !== "replace") return "";
  for (const write of writes) {
    const rivals = writes.filter((other) => write.group && other.group === write.group);
    const agents = [...new Set(rivals.map((other) => other.run))];
    if (agents.length > 1) {
      return `${rivals.map((other) => other.agent).join(" and ")} wrote it side by side, and \`replace\` keeps one value`;
    }
  }
  return "";
};
