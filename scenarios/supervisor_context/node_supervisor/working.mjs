// A supervisor that works off goals, step by step, and sends each agent what those before it put out.
// It has no library: the provider is asked over HTTP.
import { tell, useTool } from "./simkit.mjs";

const MAX_ITERATIONS = 5;

// An error with a name that others know it by.
class Failure extends Error {
  constructor(name, message) {
    super(message);
    this.name = name;
  }
}

async function ask(name, { tool }, tools, messages) {
  const offered = tool && {
    tools: [
      {
        type: "function",
        function: { name: tool, description: tools[tool].description, parameters: tools[tool].parameters },
      },
    ],
  };
  const response = await fetch(`${process.env.OPENAI_BASE_URL}/chat/completions`, {
    method: "POST",
    headers: {
      "content-type": "application/json",
      authorization: `Bearer ${process.env.OPENAI_API_KEY}`,
      "x-simkit-agent": name,
    },
    body: JSON.stringify({ model: "gpt-5-mini", messages, ...offered }),
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

function promptOf(agent, context, closing) {
  if (!context || agent.alone) return agent.prompt;
  const data = JSON.stringify(context, null, 2);
  const block = `CONTEXT DATA (use this in your tool calls):\n\`\`\`json\n${data}\n\`\`\``;
  return [agent.prompt, block, closing].filter(Boolean).join("\n\n");
}

async function executeTaskWithContext(name, task, context, told, { agents, tools, closing }) {
  const messages = [
    { role: "system", content: promptOf(agents[name], context, closing) },
    { role: "user", content: task },
  ];
  if (told) messages.push({ role: "system", content: told });
  for (let iteration = 0; iteration < MAX_ITERATIONS; iteration++) {
    const message = await ask(name, agents[name], tools, messages);
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

async function work(goal, name, task, results, told, pipeline) {
  const context = Object.keys(results).length ? results : null;
  await tell("started", { agent: name, input: task, goal, received: { agent_results: context ?? {} } });
  let output;
  try {
    output = valueOf(await executeTaskWithContext(name, task, context, told, pipeline));
  } catch (problem) {
    await tell("finished", { agent: name, failed: true });
    throw problem;
  }
  results[`${name}_output`] = output;
  await tell("finished", { agent: name, output });
  await tell("state", { agent: name, update: { agent_results: { [`${name}_output`]: output } } });
  return output;
}

// The goals that a message asks for: the one that it names, else all in their order.
function goalsFor(message, goals) {
  const wanted = message?.goal;
  if (wanted === undefined) return Object.entries(goals);
  if (!(wanted in goals)) {
    throw new Failure("NoRoute", `there is no goal '${wanted}'; goals: ${Object.keys(goals).join(", ")}`);
  }
  return [[wanted, goals[wanted]]];
}

async function execute(message, pipeline) {
  const results = {};
  let before = null;
  let last = null;
  for (const [goal, steps] of goalsFor(message, pipeline.goals)) {
    for (const [name, task] of steps) {
      const contract = before && pipeline.contracts?.[`${before.name}>${name}`];
      for (let tries = 1; contract; tries++) {
        const why = contract.check(last);
        const handoff = { from: before.name, to: name, type: contract.type, query: task, payload: last };
        await tell("handoff", { ...handoff, refused: why });
        if (!why) break;
        if (contract.onInvalid === "stop") return last;
        if (contract.onInvalid === "retry" && tries > 1) {
          const whom = `from '${before.name}' to '${name}'`;
          throw new Failure("HandoffInvalid", `the handoff ${whom} was refused again: ${why}`);
        }
        const told = `Handoff to ${name} rejected: ${why}`;
        last = await work(before.goal, before.name, before.task, results, told, pipeline);
      }
      last = await work(goal, name, task, results, "", pipeline);
      before = { goal, name, task };
    }
  }
  return last;
}

export async function serve(pipeline) {
  for (let turn = await tell("next", {}); turn; turn = await tell("next", {})) {
    try {
      await tell("reply", { reply: await execute(turn.user, pipeline) });
    } catch (problem) {
      const { name: type, message } = problem;
      await tell("reply", { error: problem instanceof Failure ? { type, message } : message });
    }
  }
}
