// The data that `simkit/viewer/document.py` writes. A field at its default is left out there.

export interface Index {
  version: number;
  simkit: string;
  title: string;
  scenarios: Scenario[];
  graphs: Graph[];
  files?: Record<string, string>;
  sides?: [string, string];
  coverage?: CoverageData;
}

export interface CoveredPart {
  pipeline: string;
  kind: string;
  name: string;
  file: string;
  line: number;
  hits?: number;
  hint?: string;
  code?: string;
  agent?: string;
}

export interface CoverageData {
  measured: string;
  kinds?: string[];
  parts?: CoveredPart[];
  graphs?: Graph[];
  notes?: string[];
}

export interface Scenario {
  key: string;
  id: string;
  file: string;
  line: number;
  name: string;
  outcome: string;
  pipeline?: string;
  turns?: number;
  calls?: number;
  tokens?: number;
  virtual_ms?: number;
  seed?: number;
  digest?: string;
  findings?: string[];
  warnings?: number;
  noted?: number;
  skipped?: number;
  error?: string;
  reason?: string;
  reproduce?: string;
  agents?: string[];
  run?: number;
  base?: Scenario;
  diff?: DiffData;
}

export interface ToolCallLine { id: string; name: string; args?: unknown; to?: string }

export interface Message {
  role: string;
  text: number;
  id?: string;
  agent?: string;
  turn?: number;
  tool?: string;
  call_id?: string;
  calls?: ToolCallLine[];
}

export interface Cut { message: number; by: string; what?: string }

export interface Stream { name: string; entries: number[]; tokens: number[]; cuts: Cut[] }

export interface Part {
  section: string;
  message?: number;
  tokens?: number;
  pieces?: [string, number, number][];
  inner?: Part[];
  stream?: number;
  lo?: number;
  hi?: number;
  cuts?: number;
  tail?: number[];
  tail_tokens?: number[];
  tail_cuts?: Cut[];
  summary?: number;
  summary_tokens?: number;
  rendered?: number;
}

export interface LeftOut {
  section: string;
  by: string;
  channel?: string;
  count?: number;
  items?: number[];
  note?: string;
}

export interface Prefix {
  messages: number;
  tokens: number;
  total: number;
  where?: string;
  before?: string;
  after?: string;
}

export interface Call {
  id: string;
  agent: string;
  run: string;
  turn: number;
  at: number;
  base?: number;
  parts?: Part[];
  own?: number[];
  own_tokens?: number[];
  named?: [string, number][];
  tools?: number;
  settings?: number;
  tokens?: number;
  budget?: number;
  hidden?: string;
  prefix?: Prefix;
  left_out?: LeftOut[];
  handoffs?: string[];
  reply?: number;
  kind?: string;
  thinking?: number;
  usage?: Record<string, number>;
  error?: string;
  until?: number;
  wire?: Wire;
}

/** What a client sent and got; the body as changes of the same agent's request before it. */
export interface Wire {
  url: string;
  where: string;
  body: unknown;
  status?: number;
  response?: unknown;
  server?: string;
  turn?: number;
}

export interface AgentRun {
  id: string;
  agent: string;
  turn: number;
  at: number;
  status: string;
  until?: number;
  handoff?: string;
  handoff_from?: string;
  group?: string;
  after?: string[];
  input?: number;
  output?: number;
}

export interface Handoff {
  id: string;
  source: string;
  target: string;
  turn: number;
  at: number;
  outcome: string;
  type?: string;
  mode?: string;
  query?: number;
  payload?: number;
  reason?: string;
  run?: string;
  by?: string;
  arrivals?: Arrival[];
}

/** One value of a payload: the sections that brought it to the target, or why nobody can tell. */
export interface Arrival {
  path: string;
  value: string;
  state: "arrived" | "lost" | "unknown";
  sections?: string[];
  reason?: string;
}

export interface Tool {
  id: string;
  tool: string;
  agent: string;
  turn: number;
  at: number;
  run?: string;
  args?: number;
  result?: number;
  error?: string;
  until?: number;
  server?: string;
}

export interface Write {
  turn: number;
  at: number;
  cause: string;
  update: Record<string, number>;
  agent?: string;
  run?: string;
  group?: string;
  handoff?: string;
  state?: string;
  impure?: Record<string, string>;
  idle?: string[];
  /** Channel to the later calls that were sent it: call, sections, and how many of its values; none where that is not known. */
  readers?: Record<string, [number, string[], number, number][]>;
}

export interface Mark {
  kind: string;
  turn: number;
  at: number;
  agent?: string;
  run?: string;
  ref?: number;
  text?: string;
}

export type Change = ["=", unknown] | ["+", unknown[], number] | ["~", Record<string, Change>];

export interface Turn {
  number: number;
  session: string;
  at: number;
  user?: number;
  reply?: number;
  error?: string;
  before?: Record<string, Change>;
  after?: Record<string, Change>;
}

export type Difference = [string, string, string, string];

export interface Finding {
  level: string;
  id: string;
  what: string;
  where: string;
  turn?: number;
  agent?: string;
  call?: number;
  mark?: number;
  differences?: Difference[];
  context?: string[];
  excerpt?: string;
  fix?: string;
  follows?: string;
}

export interface Node {
  name: string;
  runs?: number;
  calls?: number;
  tokens?: number;
  findings?: number;
  is_start?: boolean;
  is_function?: boolean;
  tools?: string[];
}

export interface Edge {
  source: string;
  target: string;
  label?: string;
  kind?: string;
  count?: number;
  rejected?: number;
  findings?: number;
  is_declared?: boolean;
}

export interface Graph { name: string; flow?: string; nodes?: Node[]; edges?: Edge[]; runs?: number }

export interface Claim {
  line: number;
  state: string;
  path: string;
  differences?: Difference[];
  what?: string;
}

export interface Offer {
  name: string;
  description?: string;
  parameters?: number;
  strict?: boolean;
}

export interface RunData {
  texts: string[];
  messages: Message[];
  streams: Stream[];
  toolsets: number[][];
  offers: Offer[];
  turns: Turn[];
  calls: Call[];
  runs: AgentRun[];
  handoffs: Handoff[];
  tools: Tool[];
  writes: Write[];
  marks: Mark[];
  findings: Finding[];
  agents: string[];
  channels: Record<string, [string, string]>;
  flow: string;
  graph: Graph;
  counter?: string;
  observes?: string[];
  claims?: Claim[];
  exchanges?: Wire[];
  error?: string;
}

export interface Edit { at: string; one?: unknown; other?: unknown }
export interface DiffMessage { role: string; content?: string; agent?: string; section?: string }
export interface MessageEdit {
  what: "same" | "came" | "went" | "changed";
  count?: number;
  at?: number;
  message?: DiffMessage;
  one?: DiffMessage;
  other?: DiffMessage;
  left?: DiffMessage;
  right?: DiffMessage;
  dropped_by?: string;
}
export interface DiffData {
  outcome: string;
  one: string;
  other: string;
  error: string;
  left_out: string;
  declared?: Edit[];
  first?: { number: number; before: unknown[]; one: unknown; other: unknown; edits: Edit[] } | null;
  calls?: {
    agent: string;
    turn: number;
    call: number;
    sizes: [number | null, number | null];
    tokens: [number | null, number | null];
    messages: MessageEdit[];
    edits: Edit[];
    again: [number, number][];
  }[];
  more_calls?: number;
  turns?: {
    turn: number | null;
    other_turn: number | null;
    user: string;
    edits: Edit[];
    handoffs: unknown[];
    state: Edit[];
  }[];
  at_end?: Edit[];
}
