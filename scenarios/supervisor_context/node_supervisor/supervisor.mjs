// Reference system 3 in JavaScript: three agents, each with a tool of its own.
import { refusal } from "./schema.mjs";
import { serve } from "./working.mjs";

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

const goals = {
  goal_1: [
    ["database_agent", "Fetch product sales data"],
    ["analysis_agent", "Analyze the product data"],
    ["reporting_agent", "Generate final report"],
  ],
};

const sales = {
  type: "object",
  required: ["data"],
  properties: {
    data: {
      type: "array",
      items: { type: "object", required: ["sales"], properties: { sales: { type: "number" } } },
    },
  },
};

// What must be true of an output before the next agent gets it.
const contracts = {
  "database_agent>analysis_agent": {
    type: "result",
    check: (output) => refusal(sales, output),
    onInvalid: "stop",
  },
  "analysis_agent>reporting_agent": {
    type: "result",
    check: (output) => refusal({ type: "object" }, output),
    onInvalid: "reject",
  },
};

await serve({ agents, tools, goals, contracts, closing: CLOSING });
