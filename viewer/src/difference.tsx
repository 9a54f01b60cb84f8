// Two runs of one scenario: the first difference, then contexts, handoffs and state that differ.
import type { JSX } from "preact";
import { useEffect, useState } from "preact/hooks";
import type { DiffData, DiffMessage, Edit, MessageEdit, RunData, Scenario } from "./document";
import { baseOf, hashOf, hasRun, numberOf } from "./links";
import { counted, Diff, hue, number, one, visible } from "./parts";
import type { Source } from "./reading";

const text = (value: unknown): string =>
  value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value, null, 2);

/** The two runs, each with the scenario's part of its links, once they are read. */
type Runs = { run: RunData; name: string; side: string }[];

/** The runs; null while they are read. */
const useRuns = (scenario: Scenario, name: string, sides: [string, string], source: Source): Runs | null => {
  const [runs, setRuns] = useState<Runs | null>(null);
  useEffect(() => {
    let is = true;
    const both = [[scenario.base, baseOf(name), sides[0]], [scenario, name, sides[1]]] as const;
    const there = both.filter(([one_]) => one_ && hasRun(one_));
    void Promise.all(there.map(async ([one_, key, side]) => ({ run: await source.run(one_!.run!), name: key, side })))
      .then((found) => is && setRuns(found), () => is && setRuns([]));
    return () => { is = false; };
  }, [scenario]);
  return runs;
};

/** Links to a place in both runs: a turn, or an agent's call in it. */
const Places = ({ runs, turns, agent, call = 0 }: { runs: Runs; turns: [number | null, number | null]; agent?: string; call?: number }): JSX.Element => (
  <span class="places">
    {runs.map(({ run, name, side }, place) => {
      const turn = turns[runs.length === 1 ? 1 : place];
      if (!turn) return null;
      const index = agent === undefined ? -1
        : run.calls.map((_, at) => at).filter((at) => run.calls[at].agent === agent && run.calls[at].turn === turn)[call] ?? -1;
      if (agent !== undefined && index < 0) return null;
      return <a href={hashOf({ scenario: name, turn, call: index < 0 ? 0 : numberOf(run, index) })}>in {visible(side)}</a>;
    })}
  </span>
);

const turnOf = (event: unknown): number => (event as { turn?: number } | null)?.turn ?? 0;

/** The turns in which nothing differs, as ranges: `1, 3–7`. */
const equalTurns = (diff: DiffData, count: number): string => {
  const differ = new Set<number>();
  for (const turn of diff.turns ?? []) differ.add(turn.turn ?? turn.other_turn ?? 0);
  for (const call of diff.calls ?? []) for (const turn of [call.turn, ...call.again.map(([at]) => at)]) differ.add(turn);
  const ranges: [number, number][] = [];
  for (let turn = 1; turn <= count; turn++) {
    if (differ.has(turn)) continue;
    const last = ranges[ranges.length - 1];
    if (last && last[1] === turn - 1) last[1] = turn;
    else ranges.push([turn, turn]);
  }
  return ranges.map(([from, to]) => (from === to ? `${from}` : `${from}–${to}`)).join(", ");
};

export const Difference = ({
  scenario, name, sides, source,
}: { scenario: Scenario; name: string; sides: [string, string]; source: Source }): JSX.Element => {
  const diff = scenario.diff!;
  const both = useRuns(scenario, name, sides, source);
  const runs = both ?? [];
  const equal = runs.length && !diff.more_calls ? equalTurns(diff, Math.min(...runs.map(({ run }) => run.turns.length))) : "";
  if (diff.error || diff.left_out) {
    return <section class="panel" aria-label="Difference"><h2>Not compared</h2><p class="bad" dir="auto">{visible(diff.error || diff.left_out)}</p></section>;
  }
  if (diff.outcome === "other" || diff.outcome === "one") {
    return <section class="panel" aria-label="Difference"><h2>Only one side has this scenario</h2></section>;
  }
  if (diff.outcome === "equal") {
    return <section class="panel" aria-label="Difference"><h2>Equal</h2><p>Both runs did the same{diff.declared?.length ? ", though the pipelines are declared differently" : ""}.</p><Edits edits={diff.declared ?? []} /></section>;
  }
  return (
    <section class="panel difference" aria-label="Difference" aria-busy={both === null}>
      <h2><del>{visible(sides[0])}</del> against <ins>{visible(sides[1])}</ins></h2>
      {diff.first && (
        <article>
          <h3>The first event that differs: number {diff.first.number}, {visible(kindOf(diff.first.one ?? diff.first.other))} <Places runs={runs} turns={[turnOf(diff.first.one), turnOf(diff.first.other)]} /></h3>
          <p class="fold">{diff.first.number - 1} events before it are equal.</p>
          {diff.first.edits.length ? (
            <details open={!diff.calls?.length}>
              <summary>{counted(diff.first.edits.length, "field")} of it {diff.first.edits.length === 1 ? "differs" : "differ"}</summary>
              <Edits edits={diff.first.edits} />
            </details>
          ) : <Diff one={eventText(diff.first.one)} other={eventText(diff.first.other)} />}
        </article>
      )}
      {equal && <p class="fold">Turns that are equal: {one(equal, 400)}.</p>}
      {(diff.calls ?? []).map((call) => (
        <article>
          <h3>
            What {visible(call.agent)} was sent, turn {call.turn}, its call {call.call + 1}
            <small> {sizes(call.sizes, "message")}; {sizes(call.tokens, "token")}{call.again.length ? `; the same again in ${counted(call.again.length, "later call")}` : ""}</small>
            {" "}<Places runs={runs} turns={[call.turn, call.turn]} agent={call.agent} call={call.call} />
          </h3>
          <ol class="rows">{call.messages.map((edit) => <Edited edit={edit} />)}</ol>
          <Edits edits={call.edits} />
        </article>
      ))}
      {(diff.more_calls ?? 0) > 0 && <p>{counted(diff.more_calls!, "more call")} differ, and were not compared message by message.</p>}
      {(diff.turns ?? []).map((turn) => (
        <article>
          <h3>{turn.turn === null ? "Only in the second run" : turn.other_turn === null ? "Only in the first run" : turn.turn === 0 ? "Before the first turn" : `Turn ${turn.turn}`}<small> {visible(one(turn.user, 80))}</small> <Places runs={runs} turns={[turn.turn, turn.other_turn]} /></h3>
          <Edits edits={turn.edits} />
          {turn.handoffs.length > 0 && <><h4>Handoffs</h4>{turn.handoffs.map((item) => <Item item={item} />)}</>}
          {turn.state.length > 0 && <><h4>State</h4><Edits edits={turn.state} /></>}
        </article>
      ))}
      {(diff.at_end ?? []).length > 0 && <article><h3>State at the end</h3><Edits edits={diff.at_end!} /></article>}
      {(diff.declared ?? []).length > 0 && <details><summary>{counted(diff.declared!.length, "difference")} in what the pipelines declare</summary><Edits edits={diff.declared!} /></details>}
    </section>
  );
};

/** An event in words: its kind, its agent, its turn. */
const kindOf = (event: unknown): string => {
  const { kind, agent, turn } = (event ?? {}) as { kind?: string; agent?: string; turn?: number };
  return `${kind ?? "the end"}${agent ? ` of ${agent}` : ""}${turn ? `, turn ${turn}` : ""}`;
};

const eventText = (event: unknown): string => (event === null || event === undefined ? "the run has ended" : text(event));

const sizes = ([left, right]: [number | null, number | null], noun: string): string =>
  `${left === null ? "none" : number(left)} → ${right === null ? "none" : counted(right, noun)}`;

const Edits = ({ edits }: { edits: Edit[] }): JSX.Element => (
  <>
    {edits.map((edit) => (
      <div class="edit">
        <div class="edit-at">{visible(edit.at || "value")}</div>
        <Diff one={text(edit.one)} other={text(edit.other)} />
      </div>
    ))}
  </>
);

const Item = ({ item }: { item: unknown }): JSX.Element => {
  const edit = item as { one?: unknown; other?: unknown; edits?: Edit[]; at?: unknown };
  if (edit.edits?.length) return <Edits edits={edit.edits} />;
  return <Diff one={text(edit.one)} other={text(edit.other)} />;
};

const Edited = ({ edit }: { edit: MessageEdit }): JSX.Element => {
  if (edit.what === "same") return <li class="folded">= {counted(edit.count ?? 0, "equal message")}</li>;
  const left = edit.one ?? edit.left;
  const right = edit.other ?? edit.right;
  if (edit.what === "changed" && left && right) {
    return <li class={`row changed ${hue(right.section || right.role)}`}><Head message={right} sign="~" words="changed" /><Diff one={left.content ?? ""} other={right.content ?? ""} /></li>;
  }
  const message = edit.message!;
  const sign = edit.what === "came" ? "+" : "−";
  return (
    <li class={`row ${edit.what} ${hue(message.section || message.role)}`}>
      <Head message={message} sign={sign} words={edit.what} by={edit.dropped_by} />
      <div class="text" dir="auto">{edit.what === "went" ? <del>{visible(message.content ?? "")}</del> : visible(message.content ?? "")}</div>
    </li>
  );
};

const Head = ({ message, sign, words, by }: { message: DiffMessage; sign: string; words: string; by?: string }): JSX.Element => (
  <div class="row-head">
    <span class={`fate ${words}`}><span aria-hidden="true">{sign}</span><span class="unseen">{words}</span></span>
    <span class="role">{message.role}</span>
    <span class="origin">{visible([message.section, message.agent && `by ${message.agent}`].filter(Boolean).join(" · "))}</span>
    {by && <span class="by">the other run left it out by <b>{visible(by)}</b></span>}
  </div>
);
