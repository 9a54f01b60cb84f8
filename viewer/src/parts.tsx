// Small parts that several views share.
import type { ComponentChildren, JSX } from "preact";
import { Fragment } from "preact";
import { useEffect, useMemo, useRef, useState } from "preact/hooks";
import type { Share } from "./contexts";
import { lineDiff } from "./comparing";
import { escaped, HIDDEN } from "./hidden";

/** A text of others, with its escapes in a colour of their own. */
export const visible = (text: string): ComponentChildren => {
  if (!text.match(HIDDEN)) return text;
  const parts: ComponentChildren[] = [];
  let last = 0;
  for (const found of text.matchAll(HIDDEN)) {
    parts.push(text.slice(last, found.index), <span class="control">{escaped(found[0])}</span>);
    last = (found.index ?? 0) + found[0].length;
  }
  return [...parts, text.slice(last)];
};

/** A name, which a narrow column breaks at its joints and not in mid-word. */
export const named = (text: string): ComponentChildren =>
  text.split(/(?<=[_./:-])|(?<=[a-z])(?=[A-Z])/).map((part, place) => (place ? [<wbr />, visible(part)] : visible(part)));

/** Words so long that a narrow box breaks them: it does so at their joints. */
const LONG = /(\S{20,})/;

export const foldable = (text: string): ComponentChildren =>
  text.split(LONG).map((part, place) => (place % 2 ? part.split(/(?<=[_./:,;{[-])/).map((joint) => [visible(joint), <wbr />]) : visible(part)));

export const one = (text: string, most = 120): string => {
  const line = text.replace(/\s+/g, " ").trim();
  return line.length > most ? `${line.slice(0, most - 1)}…` : line;
};

/** A name in a few characters: names that begin alike differ at their end. */
export const inMiddle = (name: string, most: number): string => {
  const end = Math.floor((most - 1) / 2);
  return name.length > most ? `${name.slice(0, most - 1 - end)}…${name.slice(-end)}` : name;
};

const SHOWN = 1500;

/** A whole text, of which the beginning is shown first if it is long. */
export const Text = ({ text, code }: { text: string; code?: boolean }): JSX.Element => {
  const [most, setMost] = useState(SHOWN);
  const shown = text.length > most ? text.slice(0, most) : text;
  const marked = wanted(shown);
  return (
    <div class={code ? "text code" : "text"} dir="auto">
      {marked}
      {text.length > most && (
        <div>
          <button class="more" onClick={() => setMost(most * 20)}>
            … {number(text.length - most)} more characters
          </button>
        </div>
      )}
    </div>
  );
};

let word = "";
/** The text that is searched for, which every text marks. */
export const markWord = (text: string): void => {
  word = text.toLowerCase();
};

export const wanted = (text: string): ComponentChildren => {
  if (word.length < 2) return foldable(text);
  const parts: ComponentChildren[] = [];
  const lower = text.toLowerCase();
  let last = 0;
  for (let at = lower.indexOf(word); at >= 0; at = lower.indexOf(word, at + word.length)) {
    parts.push(visible(text.slice(last, at)), <mark>{visible(text.slice(at, at + word.length))}</mark>);
    last = at + word.length;
  }
  return [...parts, visible(text.slice(last))];
};

export const number = (value: number): string => value.toLocaleString("en");

export const counted = (count: number, noun: string): string =>
  `${number(count)} ${noun}${count === 1 ? "" : "s"}`;

const UNITS: [string, number][] = [["d", 86_400_000], ["h", 3_600_000], ["min", 60_000], ["s", 1000]];

/** A time in its two largest units: `2 h 5 min`; below 10 seconds in milliseconds. */
export const time = (ms: number): string => {
  if (ms < 10_000) return `${number(ms)} ms`;
  if (ms < 120_000) return `${number(Math.round(ms / 100) / 10)} s`;
  const first = UNITS.findIndex(([, size]) => ms >= size);
  const [name, size] = UNITS[first];
  const [next, part] = UNITS[first + 1] ?? ["", 0];
  const rest = part ? Math.floor((ms % size) / part) : 0;
  return `${number(Math.floor(ms / size))} ${name}${rest ? ` ${rest} ${next}` : ""}`;
};

const HUES = 8;
const KNOWN = ["instructions", "history", "current_message", "handoff", "run", "notes", "memories", "state"];

/** Messages of code have no sections: their roles have colours. */
const ROLES: Record<string, number> = { system: 0, assistant: 1, user: 2, tool: 4 };

/** The class with a section's colour: the usual sections, and roles, have their own. */
export const hue = (name: string): string => {
  if (name in ROLES) return `hue-${ROLES[name]}`;
  const known = KNOWN.indexOf(name);
  if (known >= 0) return `hue-${known}`;
  let sum = 0;
  for (let place = 0; place < name.length; place++) sum = (sum * 31 + name.charCodeAt(place)) % 997;
  return `hue-${sum % HUES}`;
};

export const Bar = ({
  shares, label, colour = hue,
}: { shares: Share[]; label: string; colour?: (name: string) => string }): JSX.Element | null => {
  const total = shares.reduce((sum, share) => sum + share.tokens, 0);
  if (!total) return null;
  const words = shares.map((share) => `${share.name} ${number(share.tokens)}`).join(", ");
  return (
    <div class="bar-row">
      <span class="bar-label">{label}</span>
      <div class="bar" role="img" aria-label={`${label}: ${words}`}>
        {shares.map((share) => (
          <div class={colour(share.name)} style={{ flexGrow: share.tokens }} title={`${share.name}: ${number(share.tokens)}`} />
        ))}
      </div>
      <ul class="legend">
        {shares.map((share) => (
          <li>
            <i class={`dot ${colour(share.name)}`} aria-hidden="true" />
            {visible(share.name)} <b>{number(share.tokens)}</b>
          </li>
        ))}
      </ul>
    </div>
  );
};

/** Two texts as lines that went and came; long equal parts are folded. */
export const Diff = ({ one: left, other }: { one: string; other: string }): JSX.Element => {
  const edits = lineDiff(left.slice(0, 200000), other.slice(0, 200000));
  const near = edits.map((_, place) =>
    edits.slice(Math.max(0, place - 2), place + 3).some((edit) => edit.kind !== "same"));
  const rows: JSX.Element[] = [];
  edits.forEach((edit, place) => {
    if (near[place]) {
      const sign = { same: " ", came: "+", went: "−" }[edit.kind];
      const words = { same: "", came: "came: ", went: "went: " }[edit.kind];
      rows.push(
        <div class={`line ${edit.kind}`} dir="auto">
          <span class="sign" aria-hidden="true">{sign}</span>
          <span class="unseen">{words}</span>
          {visible(edit.text.length > 2000 ? `${edit.text.slice(0, 2000)}…` : edit.text)}
        </div>,
      );
    } else if (place === 0 || near[place - 1]) rows.push(<div class="line fold">⋯</div>);
  });
  return <div class="diff text code">{rows}</div>;
};

const STEP = 8;
const stepped = (place: number): number => Math.floor(place / STEP) * STEP;

/** Rows of equal height, of which only those in sight are in the page. */
export const Windowed = ({
  count, height, row, label, header, focus, class: name, role = "list",
}: {
  count: number;
  height: number;
  row: (place: number) => JSX.Element;
  label: string;
  header?: ComponentChildren;
  focus?: number;
  class?: string;
  role?: "list" | "grid";
}): JSX.Element => {
  const box = useRef<HTMLDivElement>(null);
  const [range, setRange] = useState<[number, number]>([0, 40]);
  const look = (): void => {
    const element = box.current;
    if (!element) return;
    // In steps, so that most frames of scrolling change nothing in the page.
    const first = Math.max(0, stepped(Math.floor(element.scrollTop / height)) - STEP);
    const last = Math.min(count, stepped(Math.ceil((element.scrollTop + element.clientHeight) / height)) + 2 * STEP);
    setRange((old) => (old[0] === first && old[1] === last ? old : [first, last]));
  };
  useEffect(look, [count]);
  useEffect(() => {
    const element = box.current;
    if (!element || focus === undefined || focus < 0) return;
    const top = focus * height;
    if (top < element.scrollTop || top + height * 2 > element.scrollTop + element.clientHeight) {
      element.scrollTop = Math.max(0, top - element.clientHeight / 2);
    }
  }, [focus]);
  // A row that was drawn is the same object in the next drawing, and is not compared again.
  const drawn = useMemo(() => ({ rows: new Map<number, JSX.Element>() }), [row]);
  const last = Math.min(range[1], count);
  const kept = new Map<number, JSX.Element>();
  for (let place = range[0]; place < last; place++) {
    kept.set(place, drawn.rows.get(place) ?? <Fragment key={place}>{row(place)}</Fragment>);
  }
  drawn.rows = kept;
  return (
    <div class={`windowed ${name ?? ""}`} ref={box} onScroll={look} tabIndex={0} role={role} aria-label={label} aria-rowcount={role === "grid" ? count + 1 : undefined}>
      {header}
      <div class="spacer" role="presentation" style={{ height: `${range[0] * height}px` }} />
      {[...kept.values()]}
      <div class="spacer" role="presentation" style={{ height: `${(count - last) * height}px` }} />
    </div>
  );
};

export const Differences = ({ all }: { all: [string, string, string, string][] }): JSX.Element => (
  <table class="differences">
    <thead>
      <tr><th scope="col">at</th><th scope="col">wanted</th><th scope="col">found</th></tr>
    </thead>
    <tbody>
      {all.map(([at, expected, actual, note]) => (
        <tr>
          <td>{visible(at || "·")}</td>
          <td class="good" dir="auto">{visible(one(expected, 400))}</td>
          <td class="bad" dir="auto">{visible(one(actual, 400))}{note && <em> {visible(note)}</em>}</td>
        </tr>
      ))}
    </tbody>
  </table>
);

export const Copy = ({ text }: { text: string }): JSX.Element => {
  const [done, setDone] = useState(false);
  const copy = (): void => {
    navigator.clipboard?.writeText(text).then(() => setDone(true), () => setDone(false));
  };
  return <button class="copy" onClick={copy}>{done ? "copied" : "copy"}</button>;
};
