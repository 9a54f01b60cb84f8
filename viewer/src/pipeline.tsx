// The pipeline's picture: thick by count, dashed where unused, red where findings are.
import type { JSX } from "preact";
import type { Edge, Graph, Node } from "./document";
import { counted, number, visible, inMiddle } from "./parts";

const CELL_W = 210;
const CELL_H = 118;
/** The part of its own size to which a picture shrinks; one that is wider then is scrolled. */
const SMALLEST = 0.7;
const NODE_W = 164;
const NODE_H = 56;
const MARGIN = 24;
const TOP = 22;

const short = (text: string, most: number): string =>
  text.length > most ? `${text.slice(0, most - 1)}…` : text;

const middle = (node: Node): [number, number] => [
  MARGIN + (node.x + 0.5) * CELL_W, MARGIN + (node.y + 0.5) * CELL_H,
];

/** A point of a curve from above to below, at a share of its way. */
const pointOf = (x1: number, y1: number, x2: number, y2: number, share: number): [number, number] => {
  const rest = 1 - share;
  const bend = (y2 - y1) / 2;
  const mix = (a: number, b: number, c: number, d: number): number =>
    rest ** 3 * a + 3 * rest ** 2 * share * b + 3 * rest * share ** 2 * c + share ** 3 * d;
  return [mix(x1, x1, x2, x2), mix(y1, y1 + bend, y2 - bend, y2)];
};

const pathOf = (source: Node, target: Node, side: number, share: number): { line: string; label: [number, number] } => {
  const [x1, y1] = middle(source);
  const [x2, y2] = middle(target);
  if (source.name === target.name) {
    const x = x1 + NODE_W / 2;
    return { line: `M ${x} ${y1 - 12} c 46 -20 46 44 0 24`, label: [x + 30, y1 - 18] };
  }
  if (source.y < target.y) {
    const top = y1 + NODE_H / 2;
    const end = y2 - NODE_H / 2;
    const bend = (end - top) / 2;
    return {
      line: `M ${x1} ${top} C ${x1} ${top + bend} ${x2} ${end - bend} ${x2} ${end}`,
      label: pointOf(x1, top, x2, end, share + 0.16 * side),
    };
  }
  if (source.y === target.y) {
    // Below the row, since a straight line would be behind the nodes; ways to the left pass lower.
    const bottom = y1 + NODE_H / 2;
    const deep = (x1 < x2 ? 28 : 40) + 6 * side;
    return {
      line: `M ${x1} ${bottom} C ${x1} ${bottom + deep} ${x2} ${bottom + deep} ${x2} ${bottom}`,
      label: [x1 + (x2 - x1) * 0.35, bottom + 0.7 * deep],
    };
  }
  const right1 = x1 + NODE_W / 2;
  const right2 = x2 + NODE_W / 2;
  const bow = Math.max(right1, right2) + 36 + 14 * side;
  return {
    line: `M ${right1} ${y1} C ${bow} ${y1} ${bow} ${y2} ${right2} ${y2}`,
    label: [bow - 6, (y1 + y2) / 2],
  };
};

const wordsOf = (edge: Edge): string =>
  `${edge.source} → ${edge.target}${edge.label ? `, ${edge.label}` : ""}: ${
    edge.count ? `${edge.count} times` : "never used"
  }${edge.rejected ? `, ${edge.rejected} rejected` : ""}${
    edge.findings ? `, ${edge.findings} findings` : ""
  }`;

export const GraphPicture = ({ graph }: { graph: Graph }): JSX.Element => {
  const nodes = graph.nodes ?? [];
  const edges = graph.edges ?? [];
  if (!nodes.length) return <p class="empty">No agent is known of this pipeline.</p>;
  const by = new Map(nodes.map((node) => [node.name, node]));
  const width = (Math.max(...nodes.map((node) => node.x)) + 1) * CELL_W + 2 * MARGIN + 30;
  const height = (Math.max(...nodes.map((node) => node.y)) + 1) * CELL_H + 2 * MARGIN;
  const sides = new Map<string, number>();
  const ways = (pick: (edge: Edge) => string, name: string): number =>
    new Set(edges.filter((edge) => pick(edge) === name).map((edge) => `${edge.source}→${edge.target}`)).size;
  // Where ways part, labels stand near their ends; where they meet, near their beginnings.
  const shareOf = (edge: Edge): number => {
    const parts = ways((one) => one.source, edge.source) > 1;
    const meets = ways((one) => one.target, edge.target) > 1;
    return parts === meets ? 0.5 : parts ? 0.66 : 0.28;
  };
  const most = Math.max(1, ...edges.map((edge) => edge.count ?? 0));
  return (
    <div class="graph-box" tabIndex={0} role="group" aria-label={`Picture of ${graph.name}`}>
      <svg
        class="graph" viewBox={`0 ${TOP} ${width} ${height - 2 * TOP}`} style={{ width: `${width}px`, minWidth: `${Math.round(width * SMALLEST)}px` }} role="img"
        aria-label={`Pipeline ${graph.name}. ${edges.map(wordsOf).join("; ")}`}
      >
        <defs>
          {["plain", "handoff", "bad", "unused"].map((name) => (
            <marker id={`head-${name}`} viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto-start-reverse">
              <path class={`head ${name}`} d="M 0 0 L 10 5 L 0 10 z" />
            </marker>
          ))}
        </defs>
        {edges.map((edge) => {
          const source = by.get(edge.source);
          const target = by.get(edge.target);
          if (!source || !target) return null;
          const pair = `${edge.source}→${edge.target}`;
          const side = sides.get(pair) ?? 0;
          sides.set(pair, side + 1);
          const { line, label } = pathOf(source, target, side, shareOf(edge));
          const used = (edge.count ?? 0) + (edge.rejected ?? 0) > 0;
          const kind = edge.findings ? "bad" : !used ? "unused" : edge.kind === "handoff" ? "handoff" : "plain";
          const text = `${edge.label ? `${short(edge.label, 22)} ` : ""}${used ? `×${number(edge.count ?? 0)}` : ""}${edge.rejected ? ` (${edge.rejected} rejected)` : ""}`;
          return (
            <g>
              <title>{wordsOf(edge)}</title>
              <path class={`edge ${kind}`} d={line} marker-end={`url(#head-${kind})`} style={{ strokeWidth: `${1.3 + 3.2 * Math.sqrt((edge.count ?? 0) / most)}px` }} />
              {text && <text class="edge-label" x={label[0]} y={label[1]} text-anchor="middle">{text}</text>}
            </g>
          );
        })}
        {nodes.map((node) => {
          const [x, y] = middle(node);
          const kind = node.findings ? "bad" : node.runs ? "used" : "unused";
          return (
            <g>
              <title>{`${node.name}: ${node.runs ?? 0} runs, ${node.calls ?? 0} calls, ${node.tokens ?? 0} tokens${node.tools?.length ? `; tools ${node.tools.join(", ")}` : ""}`}</title>
              <rect class={`node ${kind}${node.is_start ? " start" : ""}`} x={x - NODE_W / 2} y={y - NODE_H / 2} width={NODE_W} height={NODE_H} rx={node.is_function ? 2 : 10} />
              <text class="node-name" x={x} y={y - 3} text-anchor="middle">{inMiddle(node.name, 18)}</text>
              <text class="node-facts" x={x} y={y + 15} text-anchor="middle">
                {node.runs ? `${counted(node.runs, "run")} · ${counted(node.calls ?? 0, "call")}` : "never ran"}
                {node.findings ? ` · ${node.findings} ✗` : ""}
              </text>
            </g>
          );
        })}
      </svg>
    </div>
  );
};

export const Pipeline = ({ graph, whole }: { graph: Graph; whole?: Graph }): JSX.Element => {
  const unused = (graph.edges ?? []).filter((edge) => !edge.count && !edge.rejected);
  return (
    <section aria-label="Pipeline" class="panel">
      <h2>What this run used of {visible(graph.name)}</h2>
      <GraphPicture graph={graph} />
      <p class="key">
        <span class="stroke handoff" /> handoff <span class="stroke plain" /> edge or route{" "}
        <span class="stroke unused" /> declared, and not used <span class="stroke bad" /> findings;
        a line is as thick as it was used often
      </p>
      {unused.length > 0 && (
        <p>Not used here: {unused.map((edge) => `${edge.source} → ${edge.target}`).join(", ")}.</p>
      )}
      {whole && (whole.runs ?? 0) > 1 && (
        <>
          <h2>What all {number(whole.runs ?? 0)} runs of the page used</h2>
          <GraphPicture graph={whole} />
        </>
      )}
    </section>
  );
};
