// Output is validated between two named agents; the producers differ in what follows from a refusal.
import { refusal } from "./schema.mjs";
import { serve } from "./working.mjs";

const fetching = { prompt: "You fetch data from the database" };
const receiving = { prompt: "You will receive CONTEXT DATA containing output from previous agents." };
const agents = {
  stopping_producer: fetching,
  rejected_producer: fetching,
  retried_producer: fetching,
  analysis_agent: receiving,
  reporting_agent: receiving,
};

const product = { type: "object", required: ["product", "sales"], properties: { sales: { type: "number" } } };
const productData = {
  type: "object",
  required: ["data"],
  properties: { data: { type: "array", items: product } },
};

const records = (output) => (output.data.length > 0 ? "" : "rule on payload.data: it has no records");
const check = (output) => refusal(productData, output);

const contracts = {
  "stopping_producer>analysis_agent": {
    type: "product_data",
    check: (output) => check(output) || records(output),
    onInvalid: "stop",
  },
  "rejected_producer>analysis_agent": { type: "product_data", check, onInvalid: "reject" },
  "retried_producer>analysis_agent": { type: "product_data", check, onInvalid: "retry" },
};

const FETCH = "Fetch product sales data";
const ANALYZE = "Analyze the product data";
const goals = {
  stop: [
    ["stopping_producer", FETCH],
    ["analysis_agent", ANALYZE],
    ["reporting_agent", "Generate final report"],
  ],
  reject: [
    ["rejected_producer", FETCH],
    ["analysis_agent", ANALYZE],
  ],
  retry: [
    ["retried_producer", FETCH],
    ["analysis_agent", ANALYZE],
  ],
};

await serve({ agents, goals, contracts });
