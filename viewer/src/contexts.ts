// What a call was sent: its parts as rows, with what was dropped at its old place. Pure.
import type { Call, Cut, LeftOut, Message, Part, RunData } from "./document";

const JOINED = "one text";

export interface Row {
  kind: "sent" | "edited" | "dropped" | "summary" | "left_out";
  section: string;
  /** Index in the run's messages; -1 for a row of its own text. */
  message: number;
  role: string;
  text: string;
  tokens: number;
  agent: string;
  turn: number;
  tool: string;
  by: string;
  calls: Message["calls"];
  /** What a filter took out of it: tool calls, or its old content. */
  edits: { by: string; what: string }[];
  /** For messages that several sections share: their texts. */
  pieces: { section: string; text: string; tokens: number }[];
  note: string;
}

export const partsOf = (run: RunData, call: Call): Part[] => {
  let first = call;
  while (first.base !== undefined && first.base >= 0) first = run.calls[first.base];
  return first.parts ?? [];
};

export const leftOutOf = (run: RunData, call: Call): LeftOut[] => {
  let first = call;
  while (first.base !== undefined && first.base >= 0) first = run.calls[first.base];
  return first.left_out ?? [];
};

const number = (message: Message): number => Number((message.id ?? "").slice(1)) || 0;

const rowOf = (run: RunData, index: number, section: string, tokens: number): Row => {
  const message = run.messages[index];
  return {
    kind: "sent",
    section,
    message: index,
    role: message.role,
    text: message.text < 0 ? "" : run.texts[message.text],
    tokens,
    agent: message.agent ?? "",
    turn: message.turn ?? 0,
    tool: message.tool ?? "",
    by: "",
    calls: message.calls,
    edits: [],
    pieces: [],
    note: "",
  };
};

/** A history: what it shows, and at its old place what a filter or the window dropped. */
const historyRows = (run: RunData, part: Part): Row[] => {
  const stream = run.streams[part.stream ?? 0];
  const lo = part.lo ?? 0;
  const hi = part.hi ?? 0;
  const tail = part.tail ?? [];
  const tailTokens = part.tail_tokens ?? [];
  const cuts: Cut[] = [...stream.cuts.slice(0, part.cuts ?? 0), ...(part.tail_cuts ?? [])];
  const edits = new Map<number, { by: string; what: string }[]>();
  const dropped: Row[] = [];
  for (const cut of cuts) {
    const what = cut.what ?? "message";
    if (what === "message") {
      const row = rowOf(run, cut.message, part.section, 0);
      dropped.push({ ...row, kind: "dropped", by: cut.by });
      continue;
    }
    const place = number(run.messages[cut.message]);
    edits.set(place, [...(edits.get(place) ?? []), { by: cut.by, what }]);
  }
  const shown: Row[] = [];
  for (let place = 0; place < hi + tail.length; place++) {
    const index = place < hi ? stream.entries[place] : tail[place - hi];
    const tokens = place < hi ? stream.tokens[place] : (tailTokens[place - hi] ?? 0);
    const row = rowOf(run, index, part.section, tokens);
    const changes = edits.get(number(run.messages[index]));
    if (place < lo) {
      dropped.push({ ...row, kind: "dropped", by: "window", tokens: 0 });
    } else if (changes) {
      shown.push({ ...row, kind: "edited", edits: changes, by: changes[0].by });
    } else shown.push(row);
  }
  const rows = placed(run, shown, dropped);
  if (part.summary !== undefined && part.summary >= 0) {
    const row = rowOf(run, part.summary, part.section, part.summary_tokens ?? 0);
    const first = rows.findIndex((one) => one.kind !== "dropped");
    rows.splice(first < 0 ? rows.length : first, 0, { ...row, kind: "summary", by: "window" });
  }
  if (part.rendered === undefined || part.rendered < 0) return rows;
  const whole = rowOf(run, part.rendered, part.section, part.tokens ?? 0);
  return [...rows.filter((row) => row.kind === "dropped"), { ...whole, note: JOINED }];
};

/** Both lists in the order of the log; shown messages keep theirs. */
const placed = (run: RunData, shown: Row[], dropped: Row[]): Row[] => {
  if (!dropped.length) return shown;
  const at = (row: Row): number => number(run.messages[row.message]);
  const waiting = [...dropped].sort((one, other) => at(one) - at(other));
  const rows: Row[] = [];
  let next = 0;
  for (const row of shown) {
    while (next < waiting.length && at(waiting[next]) < at(row)) rows.push(waiting[next++]);
    rows.push(row);
  }
  return [...rows, ...waiting.slice(next)];
};

const leftOutRow = (run: RunData, fact: LeftOut): Row => {
  const items = (fact.items ?? []).map((place) => run.texts[place]);
  const count = fact.count ?? 1;
  const more = count > items.length && items.length ? `\n… and ${count - items.length} more` : "";
  return {
    kind: "left_out",
    section: fact.section,
    message: -1,
    role: "",
    text: items.join("\n") + more,
    tokens: 0,
    agent: "",
    turn: 0,
    tool: "",
    by: fact.by,
    calls: undefined,
    edits: [],
    pieces: [],
    note: fact.note || `${count} of ${fact.channel || "its channel"}`,
  };
};

/** All rows of a call, in the order in which the model read them. */
export const rowsOf = (run: RunData, call: Call): Row[] => {
  const rows: Row[] = [];
  const unshown = [...leftOutOf(run, call)];
  for (const part of partsOf(run, call)) {
    if (part.message !== undefined && part.message >= 0) {
      const row = rowOf(run, part.message, part.section, part.tokens ?? 0);
      row.pieces = (part.pieces ?? []).map(([section, text, tokens]) => ({
        section, tokens, text: text < 0 ? "" : run.texts[text],
      }));
      if (row.pieces.length === 1) {
        row.section = row.pieces[0].section;
        row.pieces = [];
      }
      for (const inner of part.inner ?? []) {
        rows.push(...historyRows(run, inner).filter((one) => one.kind === "dropped"));
      }
      rows.push(row);
    } else rows.push(...historyRows(run, part));
    for (let place = unshown.length - 1; place >= 0; place--) {
      if (unshown[place].section === part.section) {
        rows.push(leftOutRow(run, unshown.splice(place, 1)[0]));
      }
    }
  }
  rows.push(...unshown.map((fact) => leftOutRow(run, fact)));
  (call.own ?? []).forEach((index, place) => {
    rows.push(rowOf(run, index, "run", call.own_tokens?.[place] ?? 0));
  });
  return named(call, rows);
};

/** Sections that a pipeline's file gives to the messages of code. */
const named = (call: Call, rows: Row[]): Row[] => {
  if (!call.named?.length) return rows;
  const sections = call.named.flatMap(([section, count]) => Array<string>(count).fill(section));
  let place = 0;
  for (const row of rows) if (isSent(row)) row.section = sections[place++] ?? row.section;
  return rows;
};

export const isSent = (row: Row): boolean => row.kind !== "dropped" && row.kind !== "left_out";

export interface Share { name: string; tokens: number }

const shares = (pairs: [string, number][]): Share[] => {
  const sums = new Map<string, number>();
  for (const [name, tokens] of pairs) sums.set(name, (sums.get(name) ?? 0) + tokens);
  return [...sums].map(([name, tokens]) => ({ name, tokens })).filter((share) => share.tokens > 0);
};

export const bySection = (rows: Row[]): Share[] =>
  shares(
    rows.filter(isSent).flatMap((row): [string, number][] =>
      row.pieces.length
        ? row.pieces.map((piece): [string, number] => [piece.section, piece.tokens])
        : [[row.section || row.role, row.tokens]],
    ),
  );

/** Whether several sections, or a whole history, share the message: it has no one author. */
const isJoined = (row: Row): boolean => row.pieces.length > 0 || row.note === JOINED;

export const byAgent = (run: RunData, rows: Row[]): Share[] =>
  shares(
    rows.filter(isSent).map((row): [string, number] => [
      isJoined(row) ? "joined messages" : authorOf(run, row), row.tokens,
    ]),
  );

const authors = new WeakMap<RunData, Map<string, string>>();

/** Who wrote a message: its role says only how it was sent, since one agent's reply can be another's user message. */
export const authorOf = (run: RunData, row: Row): string => {
  if (row.agent || row.role !== "user") return row.agent || "the pipeline";
  let known = authors.get(run);
  if (!known) {
    known = new Map();
    const add = (text: number | undefined, name: string): void => {
      if (text !== undefined && text >= 0 && !known!.has(run.texts[text])) known!.set(run.texts[text], name);
    };
    for (const turn of run.turns) add(run.messages[turn.user ?? -1]?.text, "user");
    for (const message of run.messages) if (message.role === "user" && message.id && !message.turn) add(message.text, "user");
    for (const call of run.calls) add(run.messages[call.reply ?? -1]?.text, call.agent);
    for (const handoff of run.handoffs) add(handoff.query, handoff.source);
    authors.set(run, known);
  }
  return known.get(row.text) ?? "the pipeline";
};

/** Whether the context was put together by code, which tells nobody what it left out. */
export const isOfCode = (run: RunData): boolean => !run.flow;

/** So many messages before a call are looked for in it. */
const BEFORE = 500;
/** Shorter texts stand in others by chance. */
const SHORTEST = 12;

const textOf = (run: RunData, message: number): string => {
  const text = run.messages[message]?.text ?? -1;
  return text < 0 ? "" : run.texts[text];
};

const escaped = (text: string): string => JSON.stringify(text).slice(1, -1);

const isLetter = (letter: string | undefined): boolean => letter !== undefined && /[\p{L}\p{N}]/u.test(letter);

/** Whether a text stands in another as words of its own. */
const standsIn = (whole: string, text: string): boolean => {
  for (let at = whole.indexOf(text); at >= 0; at = whole.indexOf(text, at + 1)) {
    if (!isLetter(whole[at - 1]) && !isLetter(whole[at + text.length])) return true;
  }
  return false;
};

/** What was said in the session before a call of code, and what it does not hold, and no row shows as left out. */
export const saidBefore = (run: RunData, index: number, rows: Row[]): { said: number; unsent: number[] } => {
  const call = run.calls[index];
  const sent = rows.filter(isSent);
  const ids = new Set(rows.map((row) => run.messages[row.message]?.id).filter(Boolean));
  const session = run.turns[call.turn - 1]?.session;
  const group = run.runs.find((one) => one.id === call.run)?.group;
  const rivals = new Set(run.runs.filter((one) => group && one.group === group && one.id !== call.run).map((one) => one.agent));
  const known = [run.turns[call.turn - 1]?.user ?? -1, ...sent.map((row) => row.message)];
  const end = call.reply !== undefined && call.reply >= 0
    ? number(run.messages[call.reply]) - 1
    : Math.max(0, ...known.map((place) => (place < 0 ? 0 : number(run.messages[place]))));
  const words = new Set(run.turns.map((turn) => turn.user));
  const seen = new Set<string>();
  const said: number[] = [];
  run.messages.forEach((message, place) => {
    const at = number(message);
    if (!at || at > end || seen.has(message.id!)) return;
    if (message.turn && run.turns[message.turn - 1]?.session !== session) return;
    // A user message that nobody said is one that code made for a context.
    if (message.role === "user" && message.turn && !words.has(place)) return;
    if (message.turn === call.turn && rivals.has(message.agent ?? "")) return;
    seen.add(message.id!);
    said.push(place);
  });
  const order = (place: number): number => number(run.messages[place]);
  // One long text is searched faster than thousands of short ones. Short words stand in instructions by chance.
  const whole = sent.map((row) => row.text).join("\0");
  const talk = sent.filter((row) => row.role !== "system").map((row) => row.text).join("\0");
  const isIn = (text: string): boolean =>
    text.length < SHORTEST ? standsIn(talk, text) : whole.includes(text) || whole.includes(escaped(text));
  const latest = said.sort((one, other) => order(one) - order(other)).slice(-BEFORE);
  const unsent = latest.filter((place) => {
    const text = textOf(run, place);
    return !ids.has(run.messages[place].id) && !(text && isIn(text));
  });
  return { said: latest.length, unsent };
};

const stands = (whole: string, text: string): boolean => whole === text
  || (text.length >= SHORTEST && (whole.includes(text) || whole.includes(escaped(text))));

/** The sections of a context in which a text stands; a message that sections share has it in some of them. */
const sectionsOf = (row: Row, text: string): string[] => {
  const pieces = row.pieces.filter((piece) => stands(piece.text, text));
  return pieces.length ? pieces.map((piece) => piece.section) : [row.section];
};

/** The first calls of other runs of the turn that were sent a reply's text, and whether there were such calls. */
export const readersOf = (run: RunData, index: number): { readers: { call: number; sections: string[] }[]; later: number } => {
  const call = run.calls[index];
  const text = textOf(run, call.reply ?? -1);
  const id = run.messages[call.reply ?? -1]?.id;
  const readers: { call: number; sections: string[] }[] = [];
  const runs = new Set([call.run]);
  let later = 0;
  for (let place = index + 1; place < run.calls.length && run.calls[place].turn === call.turn; place++) {
    const other = run.calls[place];
    if (runs.has(other.run)) continue;
    later++;
    const rows = rowsOf(run, other).filter((row) => isSent(row)
      && ((id && run.messages[row.message]?.id === id) || (text && stands(row.text, text))));
    if (!rows.length) continue;
    runs.add(other.run);
    const sections = rows.flatMap((row) => sectionsOf(row, text)).filter(Boolean);
    readers.push({ call: place, sections: [...new Set(sections)] });
  }
  return { readers, later: text.length >= SHORTEST ? later : 0 };
};

/** The call before it of the same agent in the same session; -1 for the first. */
export const callBefore = (run: RunData, index: number): number => {
  const call = run.calls[index];
  const session = run.turns[call.turn - 1]?.session;
  for (let place = index - 1; place >= 0; place--) {
    const other = run.calls[place];
    if (other.agent === call.agent && run.turns[other.turn - 1]?.session === session) return place;
  }
  return -1;
};
