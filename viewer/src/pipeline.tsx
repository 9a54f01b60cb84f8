// The pipeline's picture: thick by count, dashed where unused, red where findings are.
import type { JSX } from "preact";
import { useEffect, useMemo, useState } from "preact/hooks";
import type { Edge, Graph } from "./document";
import { lineOf, NODE_HEIGHT, NODE_WIDTH, positionsOf } from "./layout";
import { counted, number, visible, inMiddle } from "./parts";

/** The part of its own size to which a picture shrinks; one that is wider then is scrolled. */
const SMALLEST = 0.66;

/** The width that a picture has, at its own size: without an end, but on a narrow screen. */
const useRoom = (): number => {
  const narrow = useMemo(() => matchMedia("(max-width: 820px)"), []);
  const roomOf = (): number => (narrow.matches ? innerWidth / SMALLEST : Infinity);
  const [room, setRoom] = useState(roomOf);
  useEffect(() => {
    const look = (): void => setRoom(roomOf());
    narrow.addEventListener("change", look);
    return () => narrow.removeEventListener("change", look);
  }, []);
  return room;
};

const short = (text: string, most: number): string =>
  text.length > most ? `${text.slice(0, most - 1)}…` : text;

const isUsed = (edge: Edge): boolean => (edge.count ?? 0) + (edge.rejected ?? 0) > 0;

const labelOf = (edge: Edge): string =>
  [
    edge.label && short(edge.label, 22),
    isUsed(edge) && `×${number(edge.count ?? 0)}`,
    edge.rejected && `(${edge.rejected} rejected)`,
  ].filter(Boolean).join(" ");

const wordsOf = (edge: Edge, hasRun: boolean): string => [
  `${edge.source} → ${edge.target}${edge.label ? `, ${edge.label}` : ""}${hasRun ? ": " : ""}${
    edge.count ? `${edge.count} times` : hasRun ? "never used" : ""
  }`,
  edge.rejected && `${edge.rejected} rejected`,
  edge.findings && `${edge.findings} findings`,
].filter(Boolean).join(", ");

export const GraphPicture = ({ graph }: { graph: Graph }): JSX.Element => {
  const hasRun = (graph.runs ?? 0) > 0;
  const room = useRoom();
  const { nodes, edges, width, height } = useMemo(() => positionsOf(graph, labelOf, room), [graph, room]);
  if (!nodes.length) return <p class="empty">No agent is known of this pipeline.</p>;
  const most = Math.max(1, ...edges.map(({ edge }) => edge.count ?? 0));
  return (
    <div class="graph-box" tabIndex={0} role="group" aria-label={`Picture of ${graph.name}`}>
      <svg
        class="graph" viewBox={`0 0 ${width} ${height}`} style={{ width: `${width}px`, minWidth: `${Math.round(width * SMALLEST)}px` }} role="img"
        aria-label={`Pipeline ${graph.name}. ${edges.map(({ edge }) => wordsOf(edge, hasRun)).join("; ")}`}
      >
        <defs>
          {["plain", "handoff", "bad", "unused"].map((name) => (
            <marker id={`head-${name}`} viewBox="0 0 10 10" refX="9" refY="5" markerWidth="9" markerHeight="9" markerUnits="userSpaceOnUse" orient="auto-start-reverse">
              <path class={`head ${name}`} d="M 0 0 L 10 5 L 0 10 z" />
            </marker>
          ))}
        </defs>
        {edges.map(({ edge, points }) => {
          const kind = edge.findings ? "bad" : hasRun && !isUsed(edge) ? "unused" : edge.kind === "handoff" ? "handoff" : "plain";
          return (
            <g>
              <title>{wordsOf(edge, hasRun)}</title>
              <path class={`edge ${kind}`} d={lineOf(points)} marker-end={`url(#head-${kind})`} style={{ strokeWidth: `${1.3 + 3.2 * Math.sqrt((edge.count ?? 0) / most)}px` }} />
            </g>
          );
        })}
        {edges.filter(({ edge }) => labelOf(edge)).map(({ edge, label }) => (
          <text class="edge-label" x={label.x} y={label.y + 4} text-anchor="middle">{labelOf(edge)}</text>
        ))}
        {nodes.map(({ node, x, y }) => {
          const facts = [
            node.runs ? `${counted(node.runs, "run")} · ${counted(node.calls ?? 0, "call")}` : hasRun && "never ran",
            node.findings && `${node.findings} ✗`,
          ].filter(Boolean).join(" · ");
          const kind = node.findings ? "bad" : node.runs || !hasRun ? "used" : "unused";
          return (
            <g>
              <title>{`${node.name}: ${node.runs ?? 0} runs, ${node.calls ?? 0} calls, ${node.tokens ?? 0} tokens${node.tools?.length ? `; tools ${node.tools.join(", ")}` : ""}`}</title>
              <rect class={`node ${kind}${node.is_start ? " start" : ""}`} x={x - NODE_WIDTH / 2} y={y - NODE_HEIGHT / 2} width={NODE_WIDTH} height={NODE_HEIGHT} rx={node.is_function ? 2 : 10} />
              <text class="node-name" x={x} y={facts ? y - 3 : y + 5} text-anchor="middle">{inMiddle(node.name, 18)}</text>
              {facts && <text class="node-facts" x={x} y={y + 15} text-anchor="middle">{facts}</text>}
            </g>
          );
        })}
      </svg>
    </div>
  );
};

/** The pictures of several pipelines; `most` bounds them, and `rest` says where the others are. */
export const Pictures = ({ graphs, title, most, rest }: { graphs: Graph[]; title: string; most: number; rest: string }): JSX.Element => (
  <section aria-labelledby="pipelines">
    <h2 id="pipelines">{title}</h2>
    <div class="graphs">
      {graphs.slice(0, most).map((graph) => (
        <figure>
          <figcaption>{visible(graph.name || "without a name")}{graph.runs ? ` · ${counted(graph.runs, "scenario")}` : ""}</figcaption>
          <GraphPicture graph={graph} />
        </figure>
      ))}
    </div>
    {graphs.length > most && <p>{number(graphs.length - most)} more pipelines are {rest}.</p>}
  </section>
);

export const Pipeline = ({ graph, whole }: { graph: Graph; whole?: Graph }): JSX.Element => {
  const unused = (graph.edges ?? []).filter((edge) => !edge.count && !edge.rejected);
  return (
    <section aria-label="Pipeline" class="panel">
      <h2>What this run used of {visible(graph.name)}</h2>
      <GraphPicture graph={graph} />
      <p class="key">
        <span class="stroke handoff" /> handoff <span class="stroke plain" /> edge or route{" "}
        <span class="stroke unused" /> declared, and not used <span class="stroke bad" /> findings;
        thicker = used more often
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
