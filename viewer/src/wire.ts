// The body of a request, from the changes that a trace writes: `$more` and `$with`. Pure.
import type { RunData } from "./document";

type Mapping = Record<string, unknown>;

const isMapping = (value: unknown): value is Mapping =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/** The only key of a mapping; an empty text for anything else. */
const keyOf = (value: unknown): string => {
  const names = isMapping(value) ? Object.keys(value) : [];
  return names.length === 1 ? names[0] : "";
};

/** A value without the marks that keep its own keys apart from those of changes. */
const plain = (value: unknown): unknown => {
  if (Array.isArray(value)) return value.map(plain);
  if (!isMapping(value)) return value;
  const entries = keyOf(value) === "$data" ? (value.$data as [string, unknown][]) : Object.entries(value);
  return Object.fromEntries(entries.map(([name, item]) => [name, plain(item)]));
};

/** The value that a change, or a whole value, makes of the one before it. */
export const next = (before: unknown, change: unknown): unknown => {
  const key = keyOf(change);
  if (key === "$more") {
    const more = (change as { $more: unknown }).$more;
    return typeof more === "string" ? `${before as string}${more}` : [...(before as unknown[]), ...(plain(more) as unknown[])];
  }
  if (key !== "$with") return plain(change);
  const parts = Object.entries((change as { $with: Mapping }).$with);
  if (Array.isArray(before)) {
    const items = [...(before as unknown[])];
    for (const [place, part] of parts) items[Number(place)] = next(items[Number(place)], part);
    return items;
  }
  const old = before as Mapping;
  return { ...old, ...Object.fromEntries(parts.map(([name, part]) => [name, next(old[name], part)])) };
};

/** The whole body of a call's request. Linear in the calls of its agent before it. */
export const bodyOf = (run: RunData, index: number): unknown => {
  let body: unknown;
  for (const call of run.calls.slice(0, index + 1)) {
    if (call.wire && call.agent === run.calls[index].agent) body = next(body, call.wire.body);
  }
  return body;
};
