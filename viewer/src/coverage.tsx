// What runs made pipelines do: shares by kind, the pictures, and a table of all parts.
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { CoverageData, CoveredPart } from "./document";
import { counted, named, number, one, visible } from "./parts";
import { Pictures } from "./pipeline";
import { fitting, ROWS, type Shown, shareOf, sharesOf } from "./shares";

const PICTURES = 24;

const CHIPS: [Shown, string][] = [["missing", "missing"], ["covered", "covered"], ["", "all"]];

export const Coverage = ({ coverage, title }: { coverage: CoverageData; title: string }): JSX.Element => {
  const parts = coverage.parts ?? [];
  const graphs = coverage.graphs ?? [];
  const whole = shareOf(parts);
  const [text, setText] = useState("");
  const [shown, setShown] = useState<Shown>(whole.covered < whole.of ? "missing" : "");
  const [kind, setKind] = useState("");
  const [most, setMost] = useState(ROWS);
  const shares = useMemo(() => sharesOf(parts, coverage.kinds), [coverage]);
  const near = fitting(parts, { text, kind, shown: "" });
  const rows = fitting(parts, { text, kind, shown });
  return (
    <main id="main" class="overview coverage">
      <h1>{number(whole.covered)} of {counted(whole.of, "item")} covered ({whole.percent} %)<small> by {visible(coverage.measured)} of {visible(one(title, 70))}</small></h1>
      {(coverage.notes ?? []).map((note) => <p class="note">{visible(note)}</p>)}
      <div class="coverage-columns">
        <section aria-labelledby="kinds">
          <h2 id="kinds">By kind</h2>
          <table class="kinds">
            <thead><tr><th scope="col">kind</th><th scope="col"><span class="unseen">share</span></th><th scope="col" class="count">covered</th><th scope="col" class="count">%</th></tr></thead>
            <tbody>
              {shares.map((share) => (
                <tr>
                  <th scope="row">
                    <button class="kind" aria-pressed={kind === share.kind} onClick={() => { setKind(kind === share.kind ? "" : share.kind); setMost(ROWS); }}>{visible(share.kind)}</button>
                  </th>
                  <td class="share"><meter min={0} max={share.of} value={share.covered} aria-label={`${share.kind}: ${share.covered} of ${share.of}`} /></td>
                  <td class="count">{number(share.covered)} of {number(share.of)}</td>
                  <td class="count">{share.percent}</td>
                </tr>
              ))}
            </tbody>
          </table>
        </section>
        {graphs.length === 1 && <Pictures graphs={graphs} title="Pipeline, with what was used" most={1} rest="" />}
      </div>
      <section aria-labelledby="items">
        <h2 id="items">{kind ? <>Items: {visible(kind)}</> : "Items"}</h2>
        <div class="filters">
          <label class="search">
            <span>Filter</span>
            <input
              id="search" type="search" value={text} placeholder="agent, tool, file …  ( / )"
              onInput={(event) => { setText(event.currentTarget.value); setMost(ROWS); }}
            />
          </label>
          <div class="chips" role="group" aria-label="Shown">
            {CHIPS.map(([which, word]) => (
              <button class="chip" aria-pressed={shown === which} onClick={() => { setShown(which); setMost(ROWS); }}>
                {word} <b>{number(fitting(near, { text: "", kind: "", shown: which }).length)}</b>
              </button>
            ))}
            {kind && <button class="chip" onClick={() => setKind("")}>every kind</button>}
          </div>
        </div>
        <p class="unseen" role="status">{counted(rows.length, "item")} shown</p>
        {rows.length ? <Items parts={rows.slice(0, most)} idle={idleOf(parts)} /> : <p class="empty">{whole.of ? "No item fits." : "These pipelines have nothing to cover."}</p>}
        {rows.length > most && (
          <button class="more" onClick={() => setMost(most + 5 * ROWS)}>{number(rows.length - most)} more</button>
        )}
      </section>
      {graphs.length > 1 && <Pictures graphs={graphs} title="Pipelines, with what was used" most={PICTURES} rest="in the table only" />}
    </main>
  );
};

/** The agents that never ran: they hide what only they could do. */
const idleOf = (parts: CoveredPart[]): Set<string> =>
  new Set(parts.filter((part) => part.kind === "agents" && !part.hits).map((part) => `${part.pipeline}\n${part.name}`));

const Items = ({ parts, idle }: { parts: CoveredPart[]; idle: Set<string> }): JSX.Element => (
  <div class="items-box" tabIndex={0} role="group" aria-label="Table of items">
    <table class="items">
      <thead>
        <tr><th scope="col">place</th><th scope="col">kind</th><th scope="col">item</th><th scope="col" class="count">times</th><th scope="col">cover it with</th></tr>
      </thead>
      <tbody>
        {parts.map((part) => (
          <tr class={part.hits ? "covered" : "missing"}>
            <td class="place"><code>{named(`${part.file}:${part.line}`)}</code>{part.code && <small> {visible(part.code)}</small>}</td>
            <td>{visible(part.kind)}</td>
            <td class="item" dir="auto">{named(part.name)}</td>
            <td class="count">{part.hits ? number(part.hits) : "never"}</td>
            <td class="way" dir="auto">
              {part.agent && part.agent !== part.name && idle.has(`${part.pipeline}\n${part.agent}`) && <>first a turn in which <code>{visible(part.agent)}</code> runs, then </>}
              {part.hint && visible(part.hint)}
            </td>
          </tr>
        ))}
      </tbody>
    </table>
  </div>
);
