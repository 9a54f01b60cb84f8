// Who saw what: agents across, messages down. The one picture that answers "did that leak?".
import type { JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import type { RunData } from "./document";
import { hashOf, numberOf } from "./links";
import { named, counted, one, visible, wanted, Windowed, markWord } from "./parts";
import { type Cell, Matrix } from "./seen";

const SIGNS: Record<Cell["kind"] | "never", [string, string]> = {
  sent: ["●", "sent"],
  edited: ["◐", "sent in part"],
  dropped: ["✂", "left out"],
  summarised: ["Σ", "only in a summary"],
  never: ["·", "never"],
};

export const Who = ({ run, scenario }: { run: RunData; scenario: string }): JSX.Element => {
  const matrix = useMemo(() => new Matrix(run), [run]);
  const [text, setText] = useState("");
  const agents = run.agents.filter((agent) => run.calls.some((call) => call.agent === agent));
  const wanted_ = text.toLowerCase();
  markWord(text);
  const rows = useMemo(
    () => matrix.rows.filter((place) => {
      const message = run.messages[place];
      const whole = `${message.text >= 0 ? run.texts[message.text] : ""} ${JSON.stringify(message.calls ?? "")}`;
      return !wanted_ || whole.toLowerCase().includes(wanted_);
    }),
    [matrix, wanted_],
  );
  const receivers = wanted_ ? agents.filter((agent) => rows.some((row) => {
    const kind = matrix.of(row, agent)?.kind;
    return kind === "sent" || kind === "edited";
  })) : [];
  const columns = `minmax(var(--message), 1fr) repeat(${agents.length}, var(--agent))`;
  const layout = { gridTemplateColumns: columns, minWidth: `calc(var(--message) + ${agents.length} * var(--agent))` };
  return (
    <section class="panel" aria-label="Who saw what">
      <h2>Who saw what<small> a click goes to the first call that sent it</small></h2>
      <div class="filters">
        <label class="search">
          <span>Messages with</span>
          <input id="search" type="search" value={text} placeholder="a text that must not leak  ( / )" onInput={(event) => setText(event.currentTarget.value)} />
        </label>
        <p class="key">{(["sent", "edited", "dropped", "summarised", "never"] as const).map((kind) => <span><b class={`cell ${kind}`}>{SIGNS[kind][0]}</b> {SIGNS[kind][1]} </span>)}</p>
      </div>
      <p role="status">
        {counted(rows.length, "message")}
        {wanted_ && (receivers.length ? <>; sent to <b>{receivers.join(", ")}</b></> : "; sent to no agent")}
      </p>
      <div class="matrix-box">
        <Windowed
          count={rows.length} height={40} label="Messages and who saw them" class="matrix" role="grid"
          header={
            <div class="matrix-row header" role="row" style={layout}>
              <span role="columnheader">message</span>
              {agents.map((agent) => <span role="columnheader" title={agent}><span>{named(one(agent, 30))}</span></span>)}
            </div>
          }
          row={(place) => {
            const message = run.messages[rows[place]];
            const said = message.text >= 0 ? run.texts[message.text] : (message.calls ?? []).map((call) => `→ ${call.name}`).join(" ");
            const who = message.tool ? `tool ${message.tool}` : message.agent || message.role;
            return (
              <div class="matrix-row" role="row" aria-rowindex={place + 2} style={layout}>
                <span role="rowheader" dir="auto" title={one(said, 500)}>
                  <span class="role">{message.id ? `${message.id} ` : ""}{visible(message.role === "system" ? "system" : who)}</span> {wanted(excerpt(said, wanted_))}
                </span>
                {agents.map((agent) => {
                  const cell = matrix.of(rows[place], agent);
                  const kind = cell?.kind ?? "never";
                  const words = `${SIGNS[kind][1]}${cell?.by ? ` by ${cell.by}` : ""}`;
                  return (
                    <span role="gridcell" class={`cell ${kind}`}>
                      {cell ? (
                        <a href={hashOf({ scenario, turn: run.calls[cell.call].turn, call: numberOf(run, cell.call) })} aria-label={`${words}: ${agent}`} title={words}>
                          {SIGNS[kind][0]}{cell.by && <small>{visible(one(cell.by, 14))}</small>}
                        </a>
                      ) : <span aria-label={`never: ${agent}`} role="img">{SIGNS.never[0]}</span>}
                    </span>
                  );
                })}
              </div>
            );
          }}
        />
      </div>
    </section>
  );
};

const excerpt = (text: string, word: string): string => {
  const at = word ? text.toLowerCase().indexOf(word) : -1;
  return at > 60 ? `…${one(text.slice(at - 30), 140)}` : one(text, 140);
};
