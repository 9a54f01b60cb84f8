// Where the agents and the ways of a pipeline stand: dagre's layers, from the starts downwards.
import { Graph as LayoutGraph, layout } from "@dagrejs/dagre";
import type { Edge, Graph, Node } from "./document";

export const NODE_WIDTH = 184;
export const NODE_HEIGHT = 56;
const MARGIN = 24;
const LABEL_HEIGHT = 16;
const LETTER_WIDTH = 6.5;
/** How far the way of an agent to itself stands out. */
const LOOP_WIDTH = 26;

export interface Point { x: number; y: number }
export interface NodePosition extends Point { node: Node }
/** The points of a way, from border to border, and the middle of its label. */
export interface EdgePosition { edge: Edge; points: Point[]; label: Point }
export interface Positions { nodes: NodePosition[]; edges: EdgePosition[]; width: number; height: number }

/**
 * Return the positions; equal for equal graphs. `labelOf` is what an edge has written beside it.
 * A picture wider than `room` goes from left to right, if that is narrower.
 */
export const positionsOf = (graph: Graph, labelOf: (edge: Edge) => string, room = Infinity): Positions => {
  const down = layered(graph, labelOf, "TB");
  if (down.width <= room) return down;
  const across = layered(graph, labelOf, "LR");
  return across.width < down.width ? across : down;
};

const layered = (graph: Graph, labelOf: (edge: Edge) => string, rankdir: "TB" | "LR"): Positions => {
  const layers = new LayoutGraph({ multigraph: true });
  layers.setGraph({ rankdir, nodesep: 40, edgesep: 24, ranksep: 36, marginx: MARGIN, marginy: MARGIN });
  // Cycles are cut where a search from the first nodes finds them, so the starts come first.
  const nodes = graph.nodes ?? [];
  for (const node of [...nodes].sort((a, b) => Number(b.is_start ?? false) - Number(a.is_start ?? false))) {
    layers.setNode(node.name, { width: NODE_WIDTH, height: NODE_HEIGHT });
  }
  const edges = (graph.edges ?? []).filter((edge) => layers.hasNode(edge.source) && layers.hasNode(edge.target));
  edges.forEach((edge, number) => {
    const text = labelOf(edge);
    const size = text ? { width: text.length * LETTER_WIDTH, height: LABEL_HEIGHT } : { width: 0, height: 0 };
    layers.setEdge(edge.source, edge.target, { ...size, labelpos: "c" }, `${number}`);
  });
  layout(layers);
  const size = layers.graph() as { width: number; height: number };
  const loopOf = (edge: Edge, node: Point): EdgePosition => {
    const border = node.x + NODE_WIDTH / 2;
    const end = border + LOOP_WIDTH;
    const half = (labelOf(edge).length * LETTER_WIDTH) / 2;
    size.width = Math.max(size.width, end + 2 * half + MARGIN);
    return {
      edge,
      points: [
        { x: border, y: node.y - 10 }, { x: end, y: node.y - 18 }, { x: end, y: node.y + 18 }, { x: border, y: node.y + 10 },
      ],
      label: { x: end + half, y: node.y },
    };
  };
  const ways = edges.map((edge, number): EdgePosition => {
    if (edge.source === edge.target) return loopOf(edge, layers.node(edge.source) as Point);
    const { points, x, y } = layers.edge(edge.source, edge.target, `${number}`) as Point & { points: Point[] };
    return { edge, points, label: { x: x ?? points[points.length >> 1].x, y: y ?? points[points.length >> 1].y } };
  });
  return {
    nodes: nodes.map((node) => ({ node, ...(layers.node(node.name) as Point) })),
    edges: ways,
    width: Math.max(size.width, NODE_WIDTH + 2 * MARGIN),
    height: size.height,
  };
};

/** Return a smooth line through the middles of its points, as the `d` of an SVG path. */
export const lineOf = ([first, ...rest]: Point[]): string => {
  const bends = rest.slice(0, -1).map((point, number) => {
    const next = rest[number + 1];
    const isLast = number === rest.length - 2;
    const end = isLast ? next : { x: (point.x + next.x) / 2, y: (point.y + next.y) / 2 };
    return `Q ${point.x} ${point.y} ${end.x} ${end.y}`;
  });
  const straight = rest.length === 1 ? [`L ${rest[0].x} ${rest[0].y}`] : [];
  return [`M ${first.x} ${first.y}`, ...bends, ...straight].join(" ");
};
