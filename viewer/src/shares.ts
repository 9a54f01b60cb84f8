// Shares of what was covered, and the parts that a filter leaves.
import type { CoveredPart } from "./document";

/** The rows of the table that are drawn at first. */
export const ROWS = 200;

export type Shown = "" | "covered" | "missing";

export interface Share { kind: string; covered: number; of: number; percent: string }

/** With one digit, rounded down: 100.0 only if all is covered. */
const percentOf = (covered: number, of: number): string =>
  (of ? Math.floor((1000 * covered) / of) / 10 : 100).toFixed(1);

export const shareOf = (parts: CoveredPart[], kind = ""): Share => {
  const covered = parts.filter((part) => part.hits).length;
  return { kind, covered, of: parts.length, percent: percentOf(covered, parts.length) };
};

/** One share for each kind; Python writes the kinds in the order of `KINDS`. */
export const sharesOf = (parts: CoveredPart[], kinds: string[] = []): Share[] => {
  const by = new Map<string, CoveredPart[]>(kinds.map((kind) => [kind, []]));
  for (const part of parts) {
    const known = by.get(part.kind);
    if (known) known.push(part);
    else by.set(part.kind, [part]);
  }
  return [...by].filter(([, of]) => of.length).map(([kind, of]) => shareOf(of, kind));
};

export const fitting = (
  parts: CoveredPart[], { text, kind, shown }: { text: string; kind: string; shown: Shown },
): CoveredPart[] => {
  const words = text.toLowerCase().split(/\s+/).filter(Boolean);
  return parts.filter((part) => {
    if (kind && part.kind !== kind) return false;
    if (shown && (shown === "covered") !== Boolean(part.hits)) return false;
    if (!words.length) return true;
    const all = `${part.kind} ${part.name} ${part.file}:${part.line} ${part.code ?? ""} ${part.agent ?? ""} ${part.pipeline}`.toLowerCase();
    return words.every((word) => all.includes(word));
  });
};
