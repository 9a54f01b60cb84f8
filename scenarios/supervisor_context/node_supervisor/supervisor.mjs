// Reference system 3 in JavaScript: a supervisor works off a goal, step by step, and sends each agent
// what those before it put out. It has no library: the provider is asked over HTTP.
import { tell, useTool } from "./simkit.mjs";

const MAX_ITERATIONS = 5;
const CLOSING =
  "The context contains structured data from previous steps.\n" +
  "You can reference fields from this data when calling tools.";

const text = { type: "string" };
const tools = {
  fetch_product_data: {
    description: "Fetches product sales data",
    parameters: { type: "object" },
    run: async () => ({ data: [{ sales: 3 }] }),
  },
  analyze_product_data: {
    description: "Analyzes product sales data",
    parameters: { type: "object", required: ["product_json"], properties: { product_json: text } },
    run: async ({ product_json }) => ({ insights: [JSON.parse(product_json).data.length] }),
  },
  generate_report: {
    description: "Generates a report",
    parameters: { type: "object", required: ["report_json"], properties: { report_json: text } },
    run: async ({ report_json }) => ({ report: report_json }),
  },
};

const agents = {
  database_agent: { prompt: "You fetch data from the database", tool: "fetch_product_data" },
  analysis_agent: {
    prompt:
      "You are a business analyst. You will receive CONTEXT DATA containing output from previous agents. " +
      "Use the JSON data from context (e.g., database_agent_output) and pass it as a JSON STRING to your " +
      "analysis tools. Tools expect JSON STRING parameters, not JSON objects.",
    tool: "analyze_product_data",
  },
  reporting_agent: {
    prompt:
      "You will receive CONTEXT DATA containing analysis_agent_output. Use this to generate reports. " +
      "Tools expect JSON STRING parameters, not JSON objects.",
    tool: "generate_report",
  },
};

const goal = [
  ["database_agent", "Fetch product sales data"],
  ["analysis_agent", "Analyze the product data"],
  ["reporting_agent", "Generate final report"],
];

// What must be true of an output before the next agent gets it; a text says why it is not.
const validations = {
  "database_agent>analysis_agent": (output) => {
    if (typeof output !== "object" || output === null || Array.isArray(output)) return "it is no object";
    if (!("data" in output)) return "'data' is missing";
    if (!Array.isArray(output.data)) return "'data' is no list";
    const wrong = output.data.findIndex((row) => typeof row?.sales !== "number");
    return wrong < 0 ? "" : `'data[${wrong}].sales' is no number`;
  },
  "analysis_agent>reporting_agent": (output) =>
    typeof output === "object" && output !== null && !Array.isArray(output) ? "" : "it is no object",
};

async function ask(name, messages) {
  const tool = tools[agents[name].tool];
  const response = await fetch(`${process.env.OPENAI_BASE_URL}/chat/completions`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      authorization: `Bearer ${process.env.OPENAI_API_KEY}`,
      "x-simkit-agent": name,
    },
    body: JSON.stringify({
      model: "gpt-5-mini",
      messages,
      tools: [
        {
          type: "function",
          function: { name: agents[name].tool, description: tool.description, parameters: tool.parameters },
        },
      ],
    }),
  });
  if (!response.ok) throw new Error((await response.json()).error?.message ?? response.statusText);
  return (await response.json()).choices[0].message;
}

// A result that is JSON is its value; any other stays a text.
function valueOf(result) {
  if (typeof result !== "string") return result;
  try {
    return JSON.parse(result);
  } catch {
    return result;
  }
}

async function executeTaskWithContext(name, task, context) {
  let prompt = agents[name].prompt;
  if (context) {
    const data = JSON.stringify(context, null, 2);
    prompt += `\n\nCONTEXT DATA (use this in your tool calls):\n\`\`\`json\n${data}\n\`\`\`\n\n${CLOSING}`;
  }
  const messages = [
    { role: "system", content: prompt },
    { role: "user", content: task },
  ];
  for (let iteration = 0; iteration < MAX_ITERATIONS; iteration++) {
    const message = await ask(name, messages);
    if (!message.tool_calls?.length) return message.content;
    messages.push(message);
    for (const call of message.tool_calls) {
      const args = JSON.parse(call.function.arguments);
      try {
        // The tool's result is the agent's output: no model puts it in other words.
        return await useTool(call.function.name, args, call.id, tools[call.function.name].run);
      } catch (problem) {
        messages.push({ role: "tool", tool_call_id: call.id, content: problem.message });
      }
    }
  }
  throw new Error(`${name} came to no end in ${MAX_ITERATIONS} iterations`);
}

async function execute() {
  const results = {};
  let before = null;
  let last = null;
  for (const [name, task] of goal) {
    if (before) {
      const why = validations[`${before}>${name}`](last);
      const handoff = { from: before, to: name, type: "result", query: task, payload: last };
      await tell("handoff", { ...handoff, refused: why });
      if (why) throw new Error(`the output of ${before} is refused: ${why}`);
    }
    await tell("started", { agent: name, input: task });
    try {
      const context = Object.keys(results).length ? results : null;
      last = valueOf(await executeTaskWithContext(name, task, context));
    } catch (problem) {
      await tell("finished", { agent: name, failed: true });
      throw problem;
    }
    results[`${name}_output`] = last;
    await tell("finished", { agent: name, output: last });
    await tell("state", { agent: name, update: { agent_results: { [`${name}_output`]: last } } });
    before = name;
  }
  return last;
}

for (let turn = await tell("next", {}); turn; turn = await tell("next", {})) {
  try {
    await tell("reply", { reply: await execute(turn.user) });
  } catch (problem) {
    await tell("reply", { error: problem.message });
  }
}
