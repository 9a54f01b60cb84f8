// The page: its place is the hash, its keys are those of the help.
import { render } from "preact";
import type { JSX } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import { Coverage } from "./coverage";
import type { Index, Scenario } from "./document";
import { escapeAllTexts, plain } from "./hidden";
import { hashOf, keysOf, placeOf, sideOf } from "./links";
import { markWord, one, visible } from "./parts";
import { Overview } from "./overview";
import { Source } from "./reading";
import { type Moves, ScenarioView } from "./scenario";

const VERSION = 1;

const HELP: [string, string][] = [
  ["j / k", "next and previous event; in the list of all, scenario"],
  ["n / p", "next and previous finding"],
  ["+ / − / 0", "zoom in and out, whole run; Ctrl and the wheel do it too, and dragging moves the timeline"],
  ["Enter", "open the scenario"],
  ["/", "search"],
  ["u", "up, to all scenarios"],
  ["1 … 6", "run, who saw what, state, pipeline, file, difference"],
  ["b", "of two runs, the other one, at the same place"],
  ["?", "this help"],
];

const HELP_OF_COVERAGE: [string, string][] = [["/", "filter"], ["?", "this help"]];

const App = ({ index, source }: { index: Index; source: Source }): JSX.Element => {
  const [hash, setHash] = useState(location.hash);
  const keys = useMemo(() => keysOf(index), [index]);
  const names = useMemo(() => {
    const out = new Map<Scenario, string>();
    for (const [key, scenario] of keys) if (!out.has(scenario)) out.set(scenario, key);
    return out;
  }, [keys]);
  const help = useRef<HTMLDialogElement>(null);
  const [cursor] = useState({ place: -1, count: 0 });
  const [, redraw] = useState(0);
  const moves = useMemo<Moves>(() => ({ event: () => undefined, finding: () => undefined, zoom: () => undefined }), []);
  const place = placeOf(hash);
  const scenario = keys.get(place.scenario);

  useEffect(() => {
    const go = (): void => setHash(location.hash);
    addEventListener("hashchange", go);
    return () => removeEventListener("hashchange", go);
  }, []);
  useEffect(() => {
    document.title = scenario ? `${plain(scenario.name)} · simkit` : index.coverage ? "simkit coverage" : "simkit report";
  }, [scenario]);
  useEffect(() => {
    if (!scenario) markWord("");
    scrollTo(0, 0);
  }, [scenario, place.view]);
  useEffect(() => {
    const press = (event: KeyboardEvent): void => {
      if (event.ctrlKey || event.metaKey || event.altKey || event.isComposing) return;
      const target = event.target as HTMLElement;
      if (/^(input|textarea|select)$/i.test(target.tagName)) {
        if (event.key === "Escape") target.blur();
        return;
      }
      const key = event.key;
      const step = key === "j" || key === "n" ? 1 : key === "k" || key === "p" ? -1 : 0;
      const now = placeOf(location.hash);
      const here = keys.get(now.scenario);
      if (key === "?") {
        if (help.current?.open) help.current.close();
        else help.current?.showModal();
      } else if (key === "/") {
        if (here && now.view !== "who") location.hash = hashOf({ scenario: sideOf(now), view: "who" });
        setTimeout(() => document.getElementById("search")?.focus(), 60);
      } else if (key === "u" && here) {
        location.hash = "#";
      } else if (here && step) {
        if (now.view !== "run") return;
        if (key === "j" || key === "k") moves.event(step);
        else moves.finding(step);
      } else if (here && now.view === "run" && "+-=0".includes(key)) {
        moves.zoom(key === "0" ? 0 : key === "-" ? -1 : 1);
      } else if (here?.base && key === "b") {
        location.replace(hashOf({ ...now, base: !now.base, item: "" }));
      } else if (here && /^[1-6]$/.test(key)) {
        const view = (["run", "who", "state", "pipeline", "file", "diff"] as const)[Number(key) - 1];
        if (view !== "diff" || here.diff) location.hash = hashOf({ scenario: view === "diff" ? now.scenario : sideOf(now), view });
      } else if (!here && (key === "j" || key === "k")) {
        cursor.place = Math.min(cursor.count - 1, Math.max(0, cursor.place + step));
        redraw((count) => count + 1);
      } else if (!here && key === "Enter" && cursor.place >= 0 && target.tagName !== "A" && target.tagName !== "BUTTON") {
        document.querySelector<HTMLAnchorElement>(".scenario.current a")?.click();
      } else return;
      event.preventDefault();
    };
    addEventListener("keydown", press);
    return () => removeEventListener("keydown", press);
  }, [keys]);

  return (
    <>
      <a class="skip" href="#main" onClick={(event) => { event.preventDefault(); document.getElementById("main")?.focus(); }}>to the content</a>
      <div class="top">
        <a class="brand" href="#">simkit</a>
        <span class="made">{visible(index.title)} · simkit {index.simkit}</span>
        <button onClick={() => help.current?.showModal()} aria-label="Keys">?</button>
      </div>
      {place.scenario && !scenario && <p class="bad missing" role="alert">No scenario of this page is named <b>{visible(one(place.scenario))}</b>: the link may be of another report.</p>}
      {scenario
        ? <ScenarioView scenario={scenario} name={names.get(scenario) ?? scenario.key} place={place} source={source} index={index} moves={moves} />
        : index.coverage
          ? <Coverage coverage={index.coverage} title={index.title} />
          : <Overview index={index} linkOf={(one) => hashOf({ scenario: names.get(one) ?? one.key })} cursor={cursor} />}
      <dialog ref={help} aria-labelledby="keys">
        <h2 id="keys">Keys</h2>
        <dl class="keys">{(index.coverage ? HELP_OF_COVERAGE : HELP).map(([key, what]) => <div><dt><kbd>{key}</kbd></dt><dd>{what}</dd></div>)}</dl>
        <button onClick={() => help.current?.close()}>Close</button>
      </dialog>
    </>
  );
};

const begin = async (): Promise<void> => {
  const root = document.getElementById("app")!;
  const say = (text: string): void => {
    const line = document.createElement("p");
    line.className = "bad missing";
    line.textContent = text;
    root.replaceChildren(line);
  };
  if (typeof DecompressionStream === "undefined") {
    say("This browser cannot read the page's data: it needs DecompressionStream (Chrome 80, Safari 16.4, Firefox 113 or newer).");
    return;
  }
  try {
    const source = new Source(document.getElementById("data")!.textContent ?? "");
    const index = await source.index();
    if (index.version !== VERSION) {
      say(`The page's data have version ${index.version}, and the page reads ${VERSION}.`);
      return;
    }
    root.replaceChildren();
    render(<App index={index} source={source} />, root);
  } catch (problem) {
    say(`The page's data cannot be read: ${String(problem)}`);
  }
};

escapeAllTexts();
void begin();
