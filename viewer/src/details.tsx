// What is known of the selected event: a call's reply and consequences, a handoff's payload, a tool.
import type { ComponentChildren, JSX } from "preact";
import { useMemo, useState } from "preact/hooks";
import { readersOf } from "./contexts";
import type { AgentRun, Arrival, Handoff, Mark, RunData, Wire, Write } from "./document";
import { callOfMark, causesOf, hashOf, numberOf, ownNumberOf } from "./links";
import { Copy, counted, foldable, named, number, one, Text, time, visible } from "./parts";
import { seesState, STATE_UNSEEN } from "./states";
import { bodyOf } from "./wire";

const textAt = (run: RunData, place: number | undefined): string =>
  place === undefined || place < 0 ? "" : run.texts[place];

const Fact = ({ name, children }: { name: string; children: ComponentChildren }): JSX.Element => (
  <div class="fact"><dt>{name}</dt><dd>{children}</dd></div>
);

export const callLink = (run: RunData, scenario: string, index: number): JSX.Element => {
  const call = run.calls[index];
  return (
    <a href={hashOf({ scenario, turn: call.turn, call: numberOf(run, index) })}>
      {visible(call.agent)}, turn {call.turn}, call {ownNumberOf(run, index)}
    </a>
  );
};

export const CallDetails = ({
  run, index, scenario, above,
}: {
  run: RunData;
  index: number;
  scenario: string;
  /** The event in sight, whose details stand above. */
  above?: Mark;
}): JSX.Element => {
  const isAbove = (kind: string, ref: number): boolean => above?.kind === kind && above.ref === ref;
  const call = run.calls[index];
  const mine = run.runs.find((one_) => one_.id === call.run);
  const reply = run.messages[call.reply ?? -1];
  const causes = causesOf(run);
  const tools = run.tools.filter((_, place) => causes.tool[place] === index && !isAbove("tool", place));
  const handoffs = run.handoffs.filter((_, place) => causes.handoff[place] === index && !isAbove("handoff", place));
  const writes = run.writes.filter((_, place) => causes.write[place] === index && !isAbove("write", place));
  const next = run.calls.findIndex((other, place) => place > index && other.run === call.run);
  return (
    <section class="panel" aria-label="Result">
      <h2>Result</h2>
      <dl>
        <Fact name="at">{time(call.at)}, run {call.run}{mine?.group ? `, parallel group ${mine.group}` : ""}{mine && mine.status !== "done" ? `, ${mine.status.replace("_", " ")}` : ""}</Fact>
        {call.wire?.where && <Fact name="sent by"><code>{visible(call.wire.where)}</code></Fact>}
        {mine?.handoff && <Fact name="started by">{handoffLine(run, scenario, mine)}</Fact>}
        {call.error && <Fact name="failed"><b class="bad">{visible(call.error)}</b></Fact>}
        {reply && (
          <Fact name={`reply${call.kind ? ` (${call.kind})` : ""}`}>
            {reply.text >= 0 && <Text text={textAt(run, reply.text)} />}
            {reply.calls?.map((line) => (
              <div class="code">→ {line.to ? `hands off to ${line.to}` : visible(line.name)}({foldable(one(JSON.stringify(line.args ?? {}), 300))})</div>
            ))}
          </Fact>
        )}
        {reply && !handoffs.length && !reply.calls?.length && <Readers run={run} index={index} scenario={scenario} isWritten={writes.some((write) => write.readers)} />}
        {textAt(run, call.thinking) && <Fact name="thinking"><Text text={textAt(run, call.thinking)} /></Fact>}
        {call.usage && Object.keys(call.usage).length > 0 && (
          <Fact name="usage">{Object.entries(call.usage).map(([name, count]) => `${name.replace(/_/g, " ")} ${number(count)}`).join(", ")}</Fact>
        )}
        {tools.map((tool) => (
          <Fact name={`tool ${tool.tool}`}>
            {tool.error ? <b class="bad">{visible(tool.error)}</b> : <Text text={textAt(run, tool.result) || "(nothing)"} code />}
          </Fact>
        ))}
        {handoffs.map((handoff) => (
          <Fact name={`handoff → ${handoff.target}`}>
            <HandoffDetails run={run} handoff={handoff} scenario={scenario} />
          </Fact>
        ))}
        {writes.length > 0 && (
          <Fact name="state written">
            {writes.map((write) => <WriteDetails run={run} write={write} scenario={scenario} />)}
            <a href={hashOf({ scenario, view: "state", turn: call.turn })}>the state in turn {call.turn}</a>
          </Fact>
        )}
        {next < 0 && !writes.length && above?.kind !== "write" && !call.error && <Fact name="state written">{seesState(run) ? "nothing" : STATE_UNSEEN}</Fact>}
        {next >= 0 && <Fact name="the run went on with">{callLink(run, scenario, next)}</Fact>}
      </dl>
      {call.wire && <Raw key={index} run={run} index={index} wire={call.wire} />}
    </section>
  );
};

/** Who was sent a reply on its way without a handoff: by the state, or by code. */
const Readers = ({ run, index, scenario, isWritten }: { run: RunData; index: number; scenario: string; isWritten: boolean }): JSX.Element | null => {
  const { readers, later } = useMemo(() => readersOf(run, index), [run, index]);
  if (!readers.length && (!later || isWritten)) return null;
  return (
    <Fact name="reply sent on to">
      {readers.length ? readers.map(({ call, sections }, place) => (
        <>{place > 0 && "; "}{callLink(run, scenario, call)}{sections.length > 0 && `, in ${sections.length > 1 ? "sections" : "section"} ${visible(sections.join(", "))}`}</>
      )) : "no later agent of the turn was sent this text unchanged"}
    </Fact>
  );
};

/** A value as indented JSON; a text that is no JSON, such as a stream, as it is. */
const jsonText = (value: unknown): string => {
  if (typeof value !== "string") return JSON.stringify(value, null, 2);
  try {
    return JSON.stringify(JSON.parse(value), null, 2);
  } catch {
    return value;
  }
};

/** The request and the response as they went over the wire, once somebody asks for them. */
const Raw = ({ run, index, wire }: { run: RunData; index: number; wire: Wire }): JSX.Element => {
  const [isOpen, setOpen] = useState(false);
  const body = useMemo(() => (isOpen ? jsonText(bodyOf(run, index)) : ""), [isOpen]);
  return (
    <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
      <summary>Raw request and response</summary>
      {isOpen && (
        <>
          <h3>{visible(wire.url)} <Copy text={body} /></h3>
          <Text text={body} code />
          <h3>{wire.status ? `Status ${wire.status}` : "No response"}</h3>
          {wire.status !== undefined && <Text text={jsonText(wire.response ?? "")} code />}
        </>
      )}
    </details>
  );
};

const handoffLine = (run: RunData, scenario: string, mine: AgentRun): JSX.Element => {
  const handoff = run.handoffs.find((one_) => one_.id === mine.handoff);
  const from = handoff ? causesOf(run).handoff[run.handoffs.indexOf(handoff)] ?? -1 : -1;
  return (
    <>
      a handoff of {from >= 0 ? callLink(run, scenario, from) : visible(mine.handoff_from ?? "")}
      {handoff && <HandoffDetails run={run} handoff={handoff} scenario={scenario} />}
    </>
  );
};

const firstCallOf = (run: RunData, id: string): number => run.calls.findIndex((call) => call.run === id);

const OUTCOMES: Record<string, string> = { requested: "asked for, and never made" };
const VERDICTS = { arrived: "good", lost: "bad", unknown: "unknown" };

const whereTo = (arrival: Arrival): string =>
  arrival.state === "lost" ? "nowhere"
    : arrival.state === "arrived" ? (arrival.sections ?? []).join(", ")
      : `not observable: ${arrival.reason ?? ""}`;

export const HandoffDetails = ({ run, handoff, scenario }: { run: RunData; handoff: Handoff; scenario: string }): JSX.Element => {
  const target = handoff.run ? firstCallOf(run, handoff.run) : -1;
  const payload = textAt(run, handoff.payload);
  const rows = payload ? handoff.arrivals ?? [] : [];
  const wrote = run.writes.filter((write) => write.handoff === handoff.id);
  return (
    <div class="handoff">
      <p>
        <b>{visible(handoff.source)} → {visible(handoff.target)}</b>: {handoff.outcome === "made" ? "made" : <b class="bad">{visible(OUTCOMES[handoff.outcome] ?? handoff.outcome)}</b>}
        {handoff.type && <>, type {visible(handoff.type)}</>}{handoff.mode && <>, mode {handoff.mode}</>}
        {handoff.reason && <span class="bad" dir="auto">: {visible(handoff.reason)}</span>}
      </p>
      {textAt(run, handoff.query) && <div>query: <Text text={textAt(run, handoff.query)} /></div>}
      {!payload && <p class="empty">without a payload</p>}
      {payload && !rows.length && <Text text={payload} code />}
      {rows.length > 0 && (
        <table class="payload">
          <thead><tr><th scope="col">payload</th><th scope="col">value</th><th scope="col">sent to {named(handoff.target)} in</th></tr></thead>
          <tbody>
            {rows.map((row) => (
              <tr><td>{row.path.length > 20 ? named(row.path) : visible(row.path)}</td><td dir="auto">{named(one(row.value, 80))}</td><td class={VERDICTS[row.state]}>{visible(whereTo(row))}</td></tr>
            ))}
          </tbody>
        </table>
      )}
      <p>
        {target >= 0 ? <>It went to {callLink(run, scenario, target)}.</> : handoff.outcome === "made" ? "No model call of the target was seen." : "No agent received it."}
      </p>
      {wrote.map((write) => <><p>Its contract wrote:</p><WriteDetails run={run} write={write} scenario={scenario} /></>)}
    </div>
  );
};

/** The later agents that were sent what a channel was written, and in which sections. */
const SentOn = ({ run, readers, scenario }: { run: RunData; readers: NonNullable<Write["readers"]>[string]; scenario: string }): JSX.Element => (
  <ul class="readers">
    {!readers.length && <li>no later agent was sent it</li>}
    {readers.map(([call, sections, arrived, values]) => (
      <li>
        sent on to {callLink(run, scenario, call)}, in <b>{visible(sections.join(", "))}</b>
        {arrived < values && ` (${number(arrived)} of ${counted(values, "value")})`}
      </li>
    ))}
  </ul>
);

export const WriteDetails = ({ run, write, scenario }: { run: RunData; write: Write; scenario: string }): JSX.Element => (
  <div class="writes">
    {Object.entries(write.update).map(([channel, place]) => (
      <div class="write">
        <b>{visible(channel)}</b>
        {!write.state && run.channels[channel] && <small> reducer {visible(run.channels[channel][0])}</small>}
        {write.idle?.includes(channel) && <small class="quiet"> · changes nothing</small>}
        {write.state ? ` (of the inner graph ${write.state})` : ""}
        {write.impure?.[channel] && <span class="bad"> its reducer {visible(write.impure[channel])}</span>}
        <Text text={textAt(run, place) || "null"} code />
        {write.readers?.[channel] && <SentOn run={run} readers={write.readers[channel]} scenario={scenario} />}
      </div>
    ))}
  </div>
);

export const MarkDetails = ({ run, mark, scenario }: { run: RunData; mark: Mark; scenario: string }): JSX.Element => {
  const ref = mark.ref ?? -1;
  if (mark.kind === "user") {
    const turn = run.turns.find((one_) => one_.number === mark.turn);
    return (
      <section class="panel" aria-label="User">
        <h2>The user, in turn {mark.turn}</h2>
        {run.messages[ref] && <Text text={textAt(run, run.messages[ref].text)} />}
        <h3>The turn's reply</h3>
        {turn?.error ? <p class="bad" dir="auto">{visible(turn.error)}</p> : <Text text={textAt(run, turn?.reply) || "(none)"} />}
      </section>
    );
  }
  if (mark.kind === "handoff") {
    return <section class="panel" aria-label="Handoff"><h2>Handoff in turn {mark.turn}</h2><HandoffDetails run={run} handoff={run.handoffs[ref]} scenario={scenario} /></section>;
  }
  if (mark.kind === "tool") {
    const tool = run.tools[ref];
    return (
      <section class="panel" aria-label="Tool">
        <h2>Tool {visible(tool.tool)}<small> {tool.server && <>of the server {visible(tool.server)}, </>}called by {visible(tool.agent || "nobody known")}, turn {tool.turn}, {time(tool.at)}{(tool.until ?? -1) > tool.at ? ` to ${time(tool.until!)}` : ""}</small></h2>
        <h3>Arguments</h3><Text text={textAt(run, tool.args) || "{}"} code />
        <h3>{tool.error ? "Error" : "Result"}</h3>
        {tool.error ? <p class="bad" dir="auto">{visible(tool.error)}</p> : <Text text={textAt(run, tool.result) || "(nothing)"} code />}
      </section>
    );
  }
  if (mark.kind === "write") {
    const write = run.writes[ref];
    return (
      <section class="panel" aria-label="State written">
        <h2>{write.agent ? <>{visible(write.agent)} wrote</> : <>written: {visible(write.cause)}</>}<small> {counted(Object.keys(write.update).length, "channel")}, turn {write.turn}, from `{visible(write.cause)}`</small></h2>
        <WriteDetails run={run} write={write} scenario={scenario} />
        {write.agent && callOfMark(run, mark) < 0 && <p class="empty">No model call of this run came before it.</p>}
        {write.turn > 0 && <p><a href={hashOf({ scenario, view: "state", turn: write.turn })}>the state in turn {write.turn}</a></p>}
      </section>
    );
  }
  return (
    <section class="panel" aria-label={mark.kind}>
      <h2>{mark.kind}<small> {mark.agent ? `${mark.agent}, ` : ""}turn {mark.turn}, {time(mark.at)}</small></h2>
      <Text text={mark.text ?? ""} />
    </section>
  );
};
