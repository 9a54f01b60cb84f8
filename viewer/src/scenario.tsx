// One scenario: its findings, and a view of its run.
import type { JSX } from "preact";
import { useCallback, useEffect, useMemo, useState } from "preact/hooks";
import { Context } from "./context";
import { CallDetails, MarkDetails } from "./details";
import { Difference } from "./difference";
import type { Finding, Graph, Index, RunData, Scenario } from "./document";
import { File } from "./file";
import { baseOf, callAt, callOfMark, hashOf, hasRun, numberOf, ownNumberOf, type Place, type View, VIEWS } from "./links";
import { Badge } from "./overview";
import { Copy, counted, Differences, named, number, one, time, visible } from "./parts";
import { Pipeline } from "./pipeline";
import type { Source } from "./reading";
import { Servers } from "./servers";
import { State } from "./state";
import { NAMES } from "./marks";
import { Timeline } from "./timeline";
import { Who } from "./who";

const TITLES: Record<View, string> = {
  run: "Run", who: "Who saw what", state: "State", pipeline: "Pipeline", file: "Scenario file",
  diff: "Difference",
};

/** What the keyboard moves through; the view in sight sets it. */
export interface Moves {
  event: (step: number) => void;
  finding: (step: number) => void;
  /** In (1), out (-1), or to the whole run (0). */
  zoom: (step: number) => void;
}

export const ScenarioView = ({
  scenario: whole_, name: key, place, source, index, moves,
}: {
  scenario: Scenario;
  name: string;
  place: Place;
  source: Source;
  index: Index;
  moves: Moves;
}): JSX.Element => {
  const twin = whole_.base;
  const isBase = twin !== undefined && (place.base || !hasRun(whole_));
  const scenario = isBase ? twin : whole_;
  const name = isBase && hasRun(whole_) ? baseOf(key) : key;
  const [run, setRun] = useState<RunData | null>(null);
  const [problem, setProblem] = useState("");
  useEffect(() => {
    setRun(null);
    if (scenario.run === undefined || scenario.run < 0) return;
    let is = true;
    source.run(scenario.run).then((data) => is && setRun(data), (error: unknown) => is && setProblem(String(error)));
    return () => { is = false; };
  }, [scenario]);
  const views = VIEWS.filter((view) => view !== "diff" || whole_.diff);
  const whole = index.graphs.find((graph) => graph.name === scenario.pipeline);
  const has = hasRun(scenario);
  return (
    <main id="main">
      <header class="scenario-head">
        <p class="crumbs"><a href="#">All scenarios</a> / {named(`${scenario.file}:${scenario.line}`)}</p>
        <h1 dir="auto"><Badge outcome={scenario.outcome} /> {visible(scenario.name)}</h1>
        <p class="facts">
          pipeline {visible(scenario.pipeline || "unknown")} · {counted(scenario.turns ?? 0, "turn")} · {counted(scenario.calls ?? 0, "model call")} · {counted(scenario.tokens ?? 0, "token")} · {time(scenario.virtual_ms ?? 0)} of virtual time · seed {scenario.seed ?? "none"}
        </p>
        {scenario.reproduce && <p class="reproduce"><code>{scenario.reproduce.split(/ (?=--\S+(?: [^\s']+)?(?= --|$))/).map((part, place) => (place ? <> <span class="option">{visible(part)}</span></> : named(part)))}</code> <Copy text={scenario.reproduce} /></p>}
        {scenario.error && <pre class="error" dir="auto">{visible(scenario.error)}</pre>}
        {scenario.reason && <p dir="auto">{visible(scenario.reason)}</p>}
      </header>
      {twin && <Sides one={twin} other={whole_} name={key} place={place} isBase={isBase} sides={index.sides ?? ["", ""]} />}
      {has && (
        <nav class="tabs" aria-label="Views">
          {views.map((view) => (
            <a href={hashOf({ scenario: view === "diff" ? key : name, view, turn: view === "state" ? turnInSight(run, place) : 0 })} aria-current={place.view === view ? "page" : undefined}>{TITLES[view]}</a>
          ))}
        </nav>
      )}
      {problem && <p class="bad">{visible(problem)}</p>}
      {!has && !scenario.error && !scenario.reason && <p class="empty">There is no trace of this scenario.</p>}
      {has && !run && !problem && <p class="loading">Reading the run …</p>}
      {run && (place.view === "run"
        ? <RunView key={name} run={run} name={name} place={place} moves={moves} />
        : <Other view={place.view} run={run} name={name} scenario={scenario} diff={whole_} place={place} index={index} whole={whole} source={source} />)}
    </main>
  );
};


/** The two runs of a scenario: which of them is in sight, and the way to the other. */
const Sides = ({
  one: base, other, name, place, isBase, sides,
}: {
  one: Scenario; other: Scenario; name: string; place: Place; isBase: boolean; sides: [string, string];
}): JSX.Element => {
  if (!hasRun(other)) return <p class="sides">Only {visible(sides[0])} has this scenario.</p>;
  const at = { ...place, scenario: name, item: "" };
  return (
    <nav class="sides" aria-label="Runs">
      {([[true, base], [false, other]] as const).map(([is, run]) => (
        <a href={hashOf({ ...at, base: is })} aria-current={place.view !== "diff" && isBase === is ? "true" : undefined}>
          <Badge outcome={run.outcome} /> {visible(sides[is ? 0 : 1])}
          <small> {counted(run.calls ?? 0, "model call")}, {counted(run.tokens ?? 0, "token")}</small>
        </a>
      ))}
    </nav>
  );
};

const Other = ({
  view, run, name, scenario, diff, place, index, whole, source,
}: {
  view: View; run: RunData; name: string; scenario: Scenario; diff: Scenario; place: Place; index: Index; whole?: Graph; source: Source;
}): JSX.Element => {
  if (view === "who") return <Who run={run} scenario={name} />;
  if (view === "state") return <State run={run} turn={turnInSight(run, place)} scenario={name} />;
  if (view === "pipeline") return <Pipeline graph={run.graph} whole={whole} />;
  if (view === "diff" && diff.diff) return <Difference scenario={diff} name={place.scenario} sides={index.sides ?? ["", ""]} source={source} />;
  return <File run={run} scenario={scenario} text={index.files?.[scenario.file] ?? ""} />;
};

const ORDER = ["failing", "warning", "skipped", "noted"];

/** The findings, what fails the scenario first. */
const findingsOf = (run: RunData): Finding[] =>
  [...run.findings].sort((a, b) => ORDER.indexOf(a.level) - ORDER.indexOf(b.level));

/** The turn of what is selected; without a selection, that of the first finding that fails. */
const turnInSight = (run: RunData | null, place: Place): number => {
  if (!run || place.turn) return place.turn;
  const findings = findingsOf(run);
  const mark = run.marks[markAt(run, place, findings.map((finding) => finding.mark ?? -1))];
  return place.item || findings[0]?.level === "failing" ? (mark?.turn ?? 0) : 0;
};

const RunView = ({ run, name, place, moves }: { run: RunData; name: string; place: Place; moves: Moves }): JSX.Element => {
  const findings = useMemo(() => findingsOf(run), [run]);
  const marks = useMemo(() => findings.map((finding) => finding.mark ?? -1), [run]);
  const pinned = useMemo(() => {
    const pins = new Map<number, Finding[]>();
    findings.forEach((finding, at) => {
      if (finding.level === "failing" || finding.level === "warning") {
        pins.set(marks[at], [...(pins.get(marks[at]) ?? []), finding]);
      }
    });
    return pins;
  }, [run]);
  const selected = markAt(run, place, marks);
  const hashOfMark = (mark: number): string => {
    const one_ = run.marks[mark];
    if (one_?.kind === "call") {
      return hashOf({ scenario: name, turn: one_.turn, call: numberOf(run, one_.ref ?? 0) });
    }
    return hashOf({ scenario: name, turn: one_?.turn ?? 0, item: `mark-${mark + 1}` });
  };
  const select = useCallback((mark: number): void => {
    if (mark >= 0 && mark < run.marks.length) location.replace(hashOfMark(mark));
  }, [run, name]);
  const named = place.item.startsWith("finding-") ? Number(place.item.slice(8)) - 1 : -1;
  const current = named >= 0 ? named : findings.findIndex((finding, at) => marks[at] === selected && finding.level === "failing");
  moves.event = (step) => select(Math.min(run.marks.length - 1, Math.max(0, selected + step)));
  moves.finding = (step) => {
    if (!findings.length) return;
    const next = current < 0 ? 0 : (current + step + findings.length) % findings.length;
    location.replace(hashOf({ scenario: name, item: `finding-${next + 1}` }));
  };
  const mark = run.marks[selected];
  const call = mark ? callOfMark(run, mark) : -1;
  const finding = current >= 0 && marks[current] === selected ? findings[current] : undefined;
  return (
    <>
      <Findings findings={findings} run={run} name={name} current={finding ? current : -1} />
      {run.marks.length > 0 && <Timeline run={run} selected={selected} pinned={pinned} select={select} zooms={moves} />}
      {!mark && <p class="empty">Nothing happened in this run.</p>}
      {mark && mark.kind !== "call" && <MarkDetails run={run} mark={mark} scenario={name} />}
      {call >= 0 && (
        <div class="columns">
          <Context key={call} run={run} index={call} scenario={name} highlight="" />
          <CallDetails run={run} index={call} scenario={name} above={mark} />
        </div>
      )}
      <Servers run={run} turn={mark?.turn ?? 0} />
    </>
  );
};

const markAt = (run: RunData, place: Place, marks: number[]): number => {
  const item = /^(mark|finding)-(\d+)$/.exec(place.item);
  if (item) {
    const number_ = Number(item[2]) - 1;
    return item[1] === "mark" ? number_ : (marks[number_] ?? 0);
  }
  if (place.turn) {
    const call = place.call ? callAt(run, place.turn, place.call) : -1;
    const found = run.marks.findIndex((mark) =>
      call >= 0 ? mark.kind === "call" && mark.ref === call : mark.turn === place.turn);
    if (found >= 0) return found;
  }
  if (marks.length && marks[0] >= 0 && run.findings.some((finding) => finding.level === "failing")) return marks[0];
  const first = run.marks.findIndex((mark) => mark.kind === "call");
  return Math.max(0, first);
};

const LEVELS: Record<string, string> = {
  failing: "fails", warning: "warning", skipped: "not looked at", noted: "noted",
};

const QUIET = ["warning", "skipped", "noted"];

/** More findings than this are folded, but the first ones. */
const FOLDED = 6;
const FIRST = 4;

const Findings = ({
  findings, run, name, current,
}: { findings: Finding[]; run: RunData; name: string; current: number }): JSX.Element | null => {
  if (!findings.length) return null;
  const failing = findings.filter((finding) => finding.level === "failing").length;
  const quiet = findings.length - failing;
  const quietWords = QUIET.map((level) => [findings.filter((finding) => finding.level === level).length, level] as const)
    .filter(([count]) => count)
    .map(([count, level]) => (level === "warning" ? counted(count, level) : `${number(count)} ${LEVELS[level]}`))
    .join(", ");
  const items = findings.map((finding, place) => (
    <li class={`finding ${finding.level}${place === current ? " current" : ""}`} id={`finding-${place + 1}`}>
      <h3>
        <span class="level">{LEVELS[finding.level]}</span> {finding.id !== "claim" && <code>{finding.id}</code>}{" "}
        <a href={hashOf({ scenario: name, item: `finding-${place + 1}` })} dir="auto">{visible(finding.what)}</a>
        <small>{named(whereOf(run, finding))}</small>
      </h3>
      {place === current && (
        <>
          {finding.excerpt && finding.excerpt.trim() && <pre class="code claim" dir="auto">{visible(finding.excerpt)}</pre>}
          {finding.differences && finding.differences.length > 0 && <Differences all={finding.differences} />}
          {finding.context && finding.context.length > 0 && <pre class="code" dir="auto">{visible(finding.context.join("\n"))}</pre>}
          {finding.fix && <p class="fix" dir="auto">{visible(finding.fix)}</p>}
          {finding.follows && <p class="follows" dir="auto">because of {visible(one(finding.follows, 160))}</p>}
        </>
      )}
    </li>
  ));
  // Many findings would push the run out of sight: the one in sight and the first ones are enough.
  const shown = Math.max(failing, current < failing ? failing : current + 1);
  const isFirst = (place: number): boolean => failing <= FOLDED || place < FIRST || place === current || place >= failing;
  const first = items.slice(0, shown).filter((_, place) => isFirst(place));
  const more = items.slice(0, shown).filter((_, place) => !isFirst(place));
  return (
    <section aria-label="Findings" class="findings">
      <h2>{failing ? counted(failing, "failure") : "No failure"}{quiet > 0 && <small>, {quietWords}</small>}</h2>
      <ol>{first}</ol>
      {more.length > 0 && (
        <details><summary>{number(more.length)} more {more.length === 1 ? "failure" : "failures"}</summary><ol>{more}</ol></details>
      )}
      {quiet > 0 && current < failing && (
        <details><summary>{quietWords}</summary><ol>{items.slice(failing)}</ol></details>
      )}
    </section>
  );
};

const whereOf = (run: RunData, finding: Finding): string => {
  const call = finding.call ?? -1;
  const kind = run.marks[finding.mark ?? -1]?.kind ?? "";
  // What is said of an agent that made no call stands at another one's.
  const by = run.calls[call]?.agent ?? "";
  const whose = by && by !== finding.agent ? ` of ${by}` : "";
  const at = call >= 0 ? `, call ${ownNumberOf(run, call)}${whose}` : kind ? `, ${NAMES[kind] ?? kind}` : "";
  const turn = finding.turn ? ` turn ${finding.turn}` : " the whole run";
  return `${turn}${finding.agent ? `, ${finding.agent}` : ""}${at} · ${finding.where}`;
};
