// The scenario's file, with each claim's line marked, and wanted and found beside those that fail.
import type { JSX } from "preact";
import { useEffect, useRef } from "preact/hooks";
import type { Claim, RunData, Scenario } from "./document";
import { counted, Differences, visible } from "./parts";

const WORDS: Record<string, [string, string]> = {
  held: ["✓", "passed"], failing: ["✗", "failed"], skipped: ["–", "not looked at"],
};

export const File = ({ run, scenario, text }: { run: RunData | null; scenario: Scenario; text: string }): JSX.Element => {
  const box = useRef<HTMLOListElement>(null);
  useEffect(() => {
    box.current?.querySelector(".failing, .first")?.scrollIntoView({ block: "center" });
  }, [text]);
  if (!text) return <section class="panel" aria-label="Scenario file"><p class="empty">The file {scenario.file} was not read: only its trace is here.</p></section>;
  const claims = new Map<number, Claim[]>();
  for (const claim of run?.claims ?? []) claims.set(claim.line, [...(claims.get(claim.line) ?? []), claim]);
  const all = run?.claims ?? [];
  const count = (state: string): number => all.filter((claim) => claim.state === state).length;
  return (
    <section class="panel" aria-label="Scenario file">
      <h2>{scenario.file}<small> {counted(all.length, "claim")}: {count("held")} passed, {count("failing")} failed{count("skipped") ? `, ${count("skipped")} not looked at` : ""}</small></h2>
      <ol class="source code" ref={box}>
        {text.split("\n").map((line, place) => {
          const here = claims.get(place + 1) ?? [];
          const state = here.some((claim) => claim.state === "failing") ? "failing" : here[0]?.state ?? "";
          const found = here.filter((claim) => claim.state === "failing");
          const classes = [state, place + 1 === scenario.line ? "first" : ""].filter(Boolean).join(" ");
          return (
            <li class={classes} id={`line-${place + 1}`}>
              <span class="line-number" aria-hidden="true">{place + 1}</span>
              <span class="claim-sign">{state && <><span aria-hidden="true">{WORDS[state][0]}</span><span class="unseen">{WORDS[state][1]}</span></>}</span>
              <span class="source-text">{visible(line) || " "}</span>
              {found.map((claim) => (
                <div class="found">
                  <p dir="auto">{visible(claim.what ?? "")}</p>
                  {claim.differences && claim.differences.length > 0 && <Differences all={claim.differences} />}
                </div>
              ))}
            </li>
          );
        })}
      </ol>
    </section>
  );
};
