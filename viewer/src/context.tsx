// What an agent was sent: the heart of the page.
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { compared, definitionOf, offersOf, type Fate } from "./comparing";
import { authorOf, byAgent, bySection, callBefore, isOfCode, isSent, rowsOf, saidBefore, type Row } from "./contexts";
import type { Prefix, RunData } from "./document";
import { Bar, counted, foldable, hue, number, one, Text, visible } from "./parts";
import { hashOf, numberOf, ownNumberOf } from "./links";

const FATES: Record<Fate, [string, string]> = {
  same: ["=", "as in the call before"],
  came: ["+", "new since the call before"],
  moved: ["↕", "stands elsewhere than in the call before"],
  changed: ["~", "changed since the call before"],
  went: ["−", "gone since the call before"],
};
const FOLDED = 60;
const ENDS = 20;

export const Context = ({
  run, index, scenario, highlight,
}: { run: RunData; index: number; scenario: string; highlight: string }): JSX.Element => {
  const call = run.calls[index];
  const before = useMemo(() => callBefore(run, index), [run, index]);
  const rows = useMemo(() => rowsOf(run, call), [run, index]);
  const [compares, setCompares] = useState(true);
  const [hides, setHides] = useState(false);
  const comparison = useMemo(
    () => (before < 0 ? null
      : compared(run, rowsOf(run, run.calls[before]), rows)),
    [run, index],
  );
  const offers = offersOf(run, call);
  const sent = rows.filter(isSent);
  const dropped = rows.length - sent.length;
  const shown = hides ? sent : rows;
  const before_ = useMemo(() => (isOfCode(run) ? saidBefore(run, index, rows) : null), [run, index]);
  const fates = compares && comparison ? comparison.fates : null;
  const went = compares && comparison ? comparison.went : [];
  return (
    <section class="context" aria-label={`What ${call.agent} was sent`}>
      <h2>
        What <b>{visible(call.agent)}</b> was sent
        <small> turn {call.turn}, call {ownNumberOf(run, index)} · {counted(sent.length, "message")} · {counted(call.tokens ?? 0, "token")}
          {call.budget ? ` of at most ${number(call.budget)}` : ""} · {dropped ? `${dropped} left out` : before_ ? codeWords(before_) : "nothing left out"}</small>
      </h2>
      <Bar shares={bySection(rows)} label={rows.some((row) => row.section) ? "tokens by section" : "tokens by role"} />
      <Bar shares={byAgent(run, rows)} label="tokens by author" colour={(name) => `hue-${([...run.agents, "user", "the pipeline"].indexOf(name) + 6) % 8}`} />
      {call.prefix && before >= 0 && (
        <PrefixLine prefix={call.prefix} run={run} before={before} scenario={scenario} />
      )}
      <div class="tools">
        {before >= 0 && (
          <label><input type="checkbox" checked={compares} onChange={() => setCompares(!compares)} /> compare with the call before</label>
        )}
        {dropped > 0 && (
          <label><input type="checkbox" checked={!hides} onChange={() => setHides(!hides)} /> show what was left out</label>
        )}
      </div>
      {call.hidden && <p class="note">A part of this context is known to the provider only: {visible(call.hidden)}</p>}
      <Rows run={run} rows={shown} fates={fates} went={went} sent={sent} prefix={fates ? (call.prefix?.messages ?? 0) : 0} highlight={highlight} />
      {before_ && before_.unsent.length > 0 && <Unsent run={run} messages={before_.unsent} scenario={scenario} turn={call.turn} />}
      <details>
        <summary>Offered tools and settings</summary>
        <p>{offers.map(({ name }) => name).join(", ") || "no tools"}{call.handoffs?.length ? `; may hand off to ${call.handoffs.join(", ")}` : ""}</p>
        {offers.filter((offer) => definitionOf(run, offer)).map((offer) => (
          <details><summary>{visible(offer.name)}</summary><Text text={definitionOf(run, offer)} code /></details>
        ))}
        {call.settings !== undefined && call.settings >= 0 && <Text text={run.texts[call.settings]} code />}
      </details>
    </section>
  );
};

const codeWords = ({ said, unsent }: { said: number; unsent: number[] }): string => {
  if (!said) return "there is no earlier message";
  if (!unsent.length) return said === 1 ? "the one earlier message is in it" : `all ${number(said)} earlier messages are in it`;
  return `${number(unsent.length)} of ${counted(said, "earlier message")} ${unsent.length === 1 ? "is" : "are"} not in it`;
};

/** More of them are folded. */
const UNSENT = 6;

/** What code did not send of the conversation: what it reads beside that, and why, it alone knows. */
const Unsent = ({
  run, messages, scenario, turn,
}: { run: RunData; messages: number[]; scenario: string; turn: number }): JSX.Element => (
  <details class="unsent" open={messages.length <= UNSENT}>
    <summary>Said before, and not in it: {counted(messages.length, "message")}</summary>
    <p class="note">
      The application's code chose what to send, and does not tell why it left something out.{" "}
      <a href={hashOf({ scenario, view: "who" })}>Who saw what</a> shows who was sent these;{" "}
      <a href={hashOf({ scenario, view: "state", turn })}>the state</a> shows what else it could have read.
    </p>
    <ol>
      {messages.map((place) => {
        const message = run.messages[place];
        const text = message.text < 0 ? "" : run.texts[message.text];
        const calls = (message.calls ?? []).map((call) => `→ ${call.name}`).join(" ");
        return (
          <li>
            <b>{message.role}</b> <span class="origin">{visible([message.agent && `by ${message.agent}`, message.tool && `tool ${message.tool}`, message.turn && `turn ${message.turn}`].filter(Boolean).join(" · "))}</span>{" "}
            <del dir="auto">{visible(one([text, calls].filter(Boolean).join(" "), 200))}</del>
          </li>
        );
      })}
    </ol>
  </details>
);

const PrefixLine = ({
  prefix, run, before, scenario,
}: { prefix: Prefix; run: RunData; before: number; scenario: string }): JSX.Element => {
  const earlier = run.calls[before];
  const link = hashOf({ scenario, turn: earlier.turn, call: numberOf(run, before) });
  const share = prefix.total ? Math.floor((100 * prefix.tokens) / prefix.total) : 100;
  const show = (): void => document.querySelector(".prefix-end")?.scrollIntoView({ block: "center" });
  return (
    <div class={prefix.where ? "prefix broken" : "prefix"}>
      <p>
        <b>Stable prefix:</b> {counted(prefix.messages, "message")}, {number(prefix.tokens)} of {number(prefix.total)} tokens ({share} %) begin as in{" "}
        <a href={link}>turn {earlier.turn}, call {ownNumberOf(run, before)}</a>
        {prefix.where
          ? <>; a provider's cache ends in <button class="copy" onClick={show}>{visible(prefix.where.replaceAll("`", ""))}</button>.</>
          : <>: all that was sent then, so a provider's cache can reuse it.</>}
      </p>
      {prefix.where && (
        <p class="break code"><del dir="auto">{visible(prefix.before || "nothing")}</del> <ins dir="auto">{visible(prefix.after || "nothing")}</ins></p>
      )}
    </div>
  );
};

const Rows = ({
  run, rows, fates, went, sent, prefix, highlight,
}: {
  run: RunData;
  rows: Row[];
  fates: Map<Row, Fate> | null;
  went: { row: Row; before: number }[];
  sent: Row[];
  prefix: number;
  highlight: string;
}): JSX.Element => {
  const [opened, setOpened] = useState<[number, number]>([ENDS, ENDS]);
  const places = useMemo(() => new Map(sent.map((row, place) => [row, place])), [sent]);
  const items: JSX.Element[] = [];
  const folds = rows.length > FOLDED;
  const first = folds ? Math.min(opened[0], rows.length) : rows.length;
  const rest = folds ? Math.max(first, rows.length - opened[1]) : rows.length;
  const gone = new Map<number, Row[]>();
  for (const { row, before } of went) gone.set(before, [...(gone.get(before) ?? []), row]);
  let section = "";
  rows.forEach((row, place) => {
    if (place >= first && place < rest) {
      if (place === first) {
        items.push(
          <li class="folded">
            <button onClick={() => setOpened([opened[0] + 200, opened[1]])}>⋯ {number(rest - first)} more, show the next 200</button>
          </li>,
        );
      }
      return;
    }
    const at = places.get(row);
    if (at !== undefined) {
      for (const old of gone.get(at) ?? []) items.push(<RowItem run={run} row={old} fate="went" section={old.section !== section} highlight={highlight} />);
      gone.delete(at);
    }
    items.push(
      <RowItem
        run={run} row={row} fate={fates?.get(row)} section={row.section !== section}
        number={at === undefined ? 0 : at + 1} inPrefix={at !== undefined && at < prefix} highlight={highlight}
      />,
    );
    section = row.section;
    if (fates && at !== undefined && at === prefix - 1 && prefix < sent.length) {
      items.push(<li class="prefix-end"><span>the stable prefix ends here</span></li>);
    }
  });
  for (const rows_ of gone.values()) {
    for (const old of rows_) items.push(<RowItem run={run} row={old} fate="went" section={false} highlight={highlight} />);
  }
  return <ol class="rows">{items}</ol>;
};

const RowItem = ({
  run, row, fate, section, number: place = 0, inPrefix = false, highlight,
}: {
  run: RunData;
  row: Row;
  fate?: Fate;
  section: boolean;
  number?: number;
  inPrefix?: boolean;
  highlight: string;
}): JSX.Element => {
  const out = row.kind === "dropped" || row.kind === "left_out";
  const sign = fate ? FATES[fate] : ["", ""];
  const author = row.role === "user" && row.message >= 0 && !row.pieces.length ? authorOf(run, row) : row.agent;
  const origin = [
    author && !["user", "the pipeline"].includes(author) && `by ${author}`,
    row.tool && `tool ${row.tool}`,
    row.turn && row.kind !== "left_out" ? `turn ${row.turn}` : "",
    row.note,
  ].filter(Boolean).join(" · ");
  const classes = ["row", row.kind, hue(row.section || row.role), out ? "" : (fate ?? ""), inPrefix ? "in-prefix" : ""];
  if (highlight && row.text.includes(highlight)) classes.push("highlight");
  const calls = row.calls?.map((call) => (
    <div class="tool-call code" dir="auto">→ {call.to ? `hands off to ${call.to}` : ""}{visible(call.to ? "" : call.name)}({foldable(one(JSON.stringify(call.args ?? {}), 400))})</div>
  ));
  const text = row.pieces.length ? null : <Text text={row.text} code={row.role === "tool"} />;
  return (
    <li class={classes.join(" ")}>
      {section && <div class="section-name">{visible(row.section || "messages")}</div>}
      <div class="row-head">
        <span class="row-number">{place || ""}</span>
        {sign[0] && <span class={`fate ${fate}`} title={sign[1]}><span aria-hidden="true">{sign[0]}</span><span class="unseen">{sign[1]}</span></span>}
        {row.role && <span class="role">{row.role}</span>}
        <span class="origin">{visible(origin)}</span>
        {out && <span class="by">{row.by === "when" ? <>left out: its <code>when:</code> is false</> : <>left out by <b>{visible(row.by)}</b></>}</span>}
        {row.kind === "edited" && row.edits.map((edit) => (
          <span class="by">{edit.what === "tool_calls" ? "tool calls" : "text"} changed by <b>{visible(edit.by)}</b></span>
        ))}
        {row.kind === "summary" && <span class="by">summary of what the <b>window</b> left out</span>}
        {row.tokens > 0 && <span class="tokens">{number(row.tokens)}</span>}
      </div>
      {out ? <del>{text}{calls}</del> : text}
      {row.pieces.map((piece) => (
        <div class={`piece ${hue(piece.section)}`}>
          <div class="section-name">{visible(piece.section)} <span class="tokens">{number(piece.tokens)}</span></div>
          <Text text={piece.text} />
        </div>
      ))}
      {!out && calls}
    </li>
  );
};
