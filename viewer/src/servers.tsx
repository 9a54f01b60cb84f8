// What went between the pipeline and the scenario's servers, exchange by exchange.
import type { JSX } from "preact";
import { useState } from "preact/hooks";
import type { RunData, Wire } from "./document";
import { counted, one, Text, visible } from "./parts";

const textOf = (value: unknown): string => (typeof value === "string" ? value : JSON.stringify(value, null, 2));

/** Whether a server answered with an error: of HTTP, of JSON-RPC, or of a tool. */
const hasFailed = ({ status = 0, response }: Wire): boolean => {
  const body = (response ?? {}) as { error?: unknown; result?: { isError?: boolean } };
  return status >= 400 || body.error !== undefined || body.result?.isError === true;
};

export const Servers = ({ run, turn }: { run: RunData; turn: number }): JSX.Element | null => {
  const all = run.exchanges ?? [];
  if (!all.length) return null;
  const here = all.filter((wire) => (wire.turn ?? 0) === turn).length;
  return (
    <details class="panel servers">
      <summary>What the scenario's servers were asked: {counted(all.length, "exchange")}, {here || "none"} in turn {turn}</summary>
      <ol>{all.map((wire) => <Exchange wire={wire} />)}</ol>
    </details>
  );
};

const Exchange = ({ wire }: { wire: Wire }): JSX.Element => {
  const [isOpen, setOpen] = useState(false);
  return (
    <li>
      <details open={isOpen} onToggle={(event) => setOpen(event.currentTarget.open)}>
        <summary>
          <b>{visible(wire.server ?? "")}</b> {visible(wire.url)}
          <small> {wire.turn ? `turn ${wire.turn}` : "before the first turn"}{wire.status === undefined ? ", no answer" : ""}</small>
          {hasFailed(wire) && <b class="bad"> error</b>}
          {!isOpen && <small> {visible(one(JSON.stringify(wire.body ?? ""), 80))}</small>}
        </summary>
        {isOpen && (
          <>
            <h3>Asked</h3><Text text={textOf(wire.body ?? "")} code />
            <h3>Answered{wire.status ? `, status ${wire.status}` : ""}</h3>
            <Text text={wire.status === undefined ? "(nothing)" : textOf(wire.response ?? "")} code />
          </>
        )}
      </details>
    </li>
  );
};
