// Two goals of one supervisor: ordered lists of agents and tasks. The announcer works without context.
import { serve } from "./working.mjs";

const agents = {
  database_agent: { prompt: "You fetch data from the database" },
  analysis_agent: { prompt: "You will receive CONTEXT DATA containing database_agent_output." },
  announcing_agent: { prompt: "You announce that a report is on its way.", alone: true },
};

const goals = {
  goal_1: [
    ["database_agent", "Fetch product sales data"],
    ["analysis_agent", "Analyze the product data"],
  ],
  goal_2: [
    ["announcing_agent", "Announce the analysis"],
    ["analysis_agent", "Answer questions about the analysis"],
  ],
};

await serve({ agents, goals });
