// The first view: all scenarios, the failed ones first, and the pipelines with what they used.
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { Index, Scenario } from "./document";
import { hasRun } from "./links";
import { Pictures } from "./pipeline";
import { counted, named, number, one, time, visible, Windowed } from "./parts";

export const ORDER = ["broken", "failed", "unjudged", "xfailed", "held", "skipped"];
export const WORDS: Record<string, string> = {
  broken: "error", failed: "failed", unjudged: "not judged", xfailed: "failed as expected",
  held: "passed", skipped: "skipped",
};
const SIGNS: Record<string, string> = {
  broken: "!", failed: "✗", unjudged: "?", xfailed: "✗", held: "✓", skipped: "–",
};

export const Badge = ({ outcome }: { outcome: string }): JSX.Element => (
  <span class={`badge ${outcome}`}>
    <span aria-hidden="true">{SIGNS[outcome] ?? "·"} </span>{WORDS[outcome] ?? outcome}
  </span>
);

const BY: Record<string, [string, (line: Scenario) => string | number]> = {
  outcome: ["outcome", () => 0],
  file: ["file", () => 0],
  name: ["name", (line) => line.name.toLowerCase()],
  findings: ["most findings", (line) => -(line.findings?.length ?? 0)],
  calls: ["most model calls", (line) => -(line.calls ?? 0)],
  tokens: ["most tokens", (line) => -(line.tokens ?? 0)],
  time: ["longest", (line) => -(line.virtual_ms ?? 0)],
};

/** The scenarios by what somebody chose; equal ones stay as they were: the failed first. */
const inOrder = (scenarios: Scenario[], by: string): Scenario[] => {
  const key = BY[by][1];
  const keyed = scenarios.map((scenario, place) => ({ scenario, place, key: key(scenario) }));
  keyed.sort((left, right) => (left.key < right.key ? -1 : left.key > right.key ? 1 : left.place - right.place));
  return keyed.map((each) => each.scenario);
};

/** A line of the list: a scenario, or a file above its scenarios. */
type Item = { scenario: Scenario } | { file: string; lines: Scenario[] };

const itemsOf = (scenarios: Scenario[], by: string): Item[] => {
  if (by !== "file") return inOrder(scenarios, by).map((scenario) => ({ scenario }));
  const files = new Map<string, Scenario[]>();
  for (const scenario of scenarios) files.set(scenario.file, [...(files.get(scenario.file) ?? []), scenario]);
  return [...files].flatMap(([file, lines]) => [{ file, lines }, ...lines.map((scenario) => ({ scenario }))]);
};

export const sorted = (scenarios: Scenario[]): Scenario[] =>
  scenarios
    .map((scenario, place) => ({ scenario, place }))
    .sort((left, right) =>
      ORDER.indexOf(left.scenario.outcome) - ORDER.indexOf(right.scenario.outcome)
      || left.place - right.place)
    .map((pair) => pair.scenario);

const DIFFERS = "differs";
const differs = (scenario: Scenario): boolean => scenario.diff !== undefined && scenario.diff.outcome !== "equal";

const fits = (scenario: Scenario, words: string[]): boolean => {
  if (!words.length) return true;
  const text = [
    scenario.id, scenario.name, scenario.pipeline ?? "", scenario.outcome,
    ...(scenario.findings ?? []), ...(scenario.agents ?? []), scenario.error ?? "",
  ].join(" ").toLowerCase();
  return words.every((word) => text.includes(word));
};

export const Overview = ({
  index, linkOf, cursor,
}: {
  index: Index;
  linkOf: (scenario: Scenario) => string;
  cursor: { place: number; count: number };
}): JSX.Element => {
  const [text, setText] = useState("");
  const [outcome, setOutcome] = useState("");
  const [by, setBy] = useState("outcome");
  const all = useMemo(() => sorted(index.scenarios), [index]);
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  const isShown = (line: Scenario): boolean =>
    !outcome || (outcome === DIFFERS ? differs(line) : line.outcome === outcome);
  const shown = all.filter((line) => isShown(line) && fits(line, words));
  const items = itemsOf(shown, by);
  cursor.count = items.length;
  const outcomes = ORDER.filter((word) => all.some((line) => line.outcome === word));
  const differ = all.filter(differs).length;
  if (!all.length) {
    // `simkit graph`: pipelines without scenarios.
    return (
      <main id="main" class="overview">
        <h1>{visible(one(index.title, 70))}</h1>
        <Pictures graphs={index.graphs} title={index.graphs.length > 1 ? "Pipelines" : "Pipeline"} most={24} rest="not drawn" />
      </main>
    );
  }
  return (
    <main id="main" class="overview">
      <h1>{counted(all.length, "scenario")}<small> of {visible(one(index.title, 70))}</small></h1>
      {index.sides && index.sides[0] && (
        <p>{number(differ)} of them {differ === 1 ? "differs" : "differ"} between {visible(index.sides[0])} and {visible(index.sides[1])}.</p>
      )}
      <div class="filters">
        <label class="search">
          <span>Filter</span>
          <input
            id="search" type="search" value={text} placeholder="name, agent, finding …  ( / )"
            onInput={(event) => setText(event.currentTarget.value)}
          />
        </label>
        <label class="order">
          <span>Order</span>
          <select value={by} onChange={(event) => setBy(event.currentTarget.value)}>
            {Object.entries(BY).map(([key, [words]]) => <option value={key}>{words}</option>)}
          </select>
        </label>
        <div class="chips" role="group" aria-label="Outcome">
          {["", ...outcomes].map((word) => (
            <button class="chip" aria-pressed={outcome === word} onClick={() => setOutcome(word)}>
              {word ? `${WORDS[word]} ` : "all "}
              <b>{number(word ? all.filter((line) => line.outcome === word).length : all.length)}</b>
            </button>
          ))}
          {differ > 0 && (
            <button class="chip" aria-pressed={outcome === DIFFERS} onClick={() => setOutcome(DIFFERS)}>differs <b>{number(differ)}</b></button>
          )}
        </div>
      </div>
      <p class="unseen" role="status">{counted(shown.length, "scenario")} shown</p>
      {shown.length ? (
        <Windowed
          count={items.length} height={isNarrow() ? 112 : 76} label="Scenarios" class="scenarios" focus={cursor.place}
          row={(place) => {
            const item = items[place];
            if ("file" in item) return <FileLine file={item.file} lines={item.lines} current={place === cursor.place} />;
            return <Line scenario={item.scenario} link={linkOf(item.scenario)} current={place === cursor.place} />;
          }}
        />
      ) : <p class="empty">No scenario fits.</p>}
      {index.graphs.length > 0 && (
        <Pictures graphs={index.graphs} title="Pipelines, with the parts that these scenarios used" most={24} rest="drawn with their scenarios" />
      )}
    </main>
  );
};

/** Whether the list has no room for its columns of numbers; as in the style. */
const isNarrow = (): boolean => matchMedia("(max-width: 820px)").matches;

const FileLine = ({ file, lines, current }: { file: string; lines: Scenario[]; current: boolean }): JSX.Element => (
  <div role="listitem" class={current ? "scenario file current" : "scenario file"}>
    <div class="what">
      <b>{named(file)}</b>
      <div class="facts">
        {ORDER.map((word) => [word, lines.filter((line) => line.outcome === word).length] as const)
          .filter(([, count]) => count)
          .map(([word, count]) => `${number(count)} ${WORDS[word]}`).join(", ")}
      </div>
    </div>
  </div>
);

const Line = ({ scenario, link, current }: { scenario: Scenario; link: string; current: boolean }): JSX.Element => {
  const first = scenario.findings?.[0] ?? scenario.error ?? scenario.reason ?? "";
  const more = (scenario.findings?.length ?? 0) - 1;
  return (
    <div role="listitem" class={current ? "scenario current" : "scenario"}>
      <Badge outcome={scenario.outcome} />
      <div class="what">
        <a href={link} dir="auto">{visible(scenario.name)}</a>
        {first && <div class="finding-line" dir="auto">{visible(first.split("\n", 1)[0])}{more > 0 && ` … and ${more} more`}</div>}
        <div class="facts">
          {scenario.file}:{scenario.line}
          {differs(scenario) && (
            <b class="differs"> {scenario.base === undefined ? "new" : hasRun(scenario) ? `differs${scenario.base.outcome === scenario.outcome ? "" : `: was ${WORDS[scenario.base.outcome]}`}` : "gone"}</b>
          )}
        </div>
      </div>
      <div class="numbers">
        {scenario.run !== undefined && scenario.run >= 0 && (
          <>
            <span>{counted(scenario.turns ?? 0, "turn")}</span>
            <span>{counted(scenario.calls ?? 0, "call")}</span>
            <span>{counted(scenario.tokens ?? 0, "token")}</span>
            <span>{time(scenario.virtual_ms ?? 0)}</span>
          </>
        )}
      </div>
    </div>
  );
};
