// Shares of what was covered, and the filter of its table.
import { expect, test } from "vitest";
import type { CoveredPart } from "../src/document";
import { fitting, shareOf, sharesOf } from "../src/shares";

const part = (kind: string, name: string, hits: number, line = 1): CoveredPart => ({
  pipeline: "desk", kind, name, file: "desk.pipeline.yaml", line, hits,
});
const parts = [
  part("tools", "look answered", 3), part("tools", "look failed", 0, 12),
  part("agents", "triage", 2), part("agents", "billing", 1), part("agents", "sales", 0),
];

test("a share is rounded down, so that 100.0 means all", () => {
  const many = Array.from({ length: 3000 }, (_, at) => part("agents", `a${at}`, at ? 1 : 0));
  expect(shareOf(many).percent).toBe("99.9");
  expect(shareOf(many.slice(1)).percent).toBe("100.0");
  expect(shareOf([]).percent).toBe("100.0");
});

test("kinds stand in the order of reports, and those without items are left out", () => {
  expect(sharesOf(parts, ["agents", "routes", "tools"])).toEqual([
    { kind: "agents", covered: 2, of: 3, percent: "66.6" },
    { kind: "tools", covered: 1, of: 2, percent: "50.0" },
  ]);
});

test("a filter takes words in any order, a kind, and what happened", () => {
  const names = (filter: Parameters<typeof fitting>[1]): string[] => fitting(parts, filter).map((one) => one.name);
  expect(names({ text: "failed LOOK", kind: "", shown: "" })).toEqual(["look failed"]);
  expect(names({ text: "yaml:12", kind: "", shown: "" })).toEqual(["look failed"]);
  expect(names({ text: "", kind: "agents", shown: "covered" })).toEqual(["triage", "billing"]);
  expect(names({ text: "", kind: "", shown: "missing" })).toEqual(["look failed", "sales"]);
});
