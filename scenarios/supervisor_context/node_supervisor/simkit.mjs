// What a program tells simkit of itself. Without SIMKIT_URL nothing is told, and tools run for real.
const url = process.env.SIMKIT_URL;

async function post(kind, body) {
  const response = await fetch(`${url}/simkit/${kind}`, {
    method: "POST",
    headers: { "content-type": "application/json" },
    body: JSON.stringify(body),
  });
  if (response.status === 204) return null;
  if (!response.ok) throw new Error(await response.text());
  return response.json();
}

export const tell = (kind, body) => (url ? post(kind, body) : null);

export async function useTool(tool, args, callId, real) {
  const answer = (await tell("tool", { tool, args, call_id: callId })) ?? { scripted: false };
  if (answer.error !== undefined) throw new Error(answer.error);
  if (answer.scripted) return answer.result;
  try {
    const result = await real(args);
    await tell("tool_result", { tool, args, call_id: callId, result });
    return result;
  } catch (problem) {
    await tell("tool_result", { tool, args, call_id: callId, error: problem.message });
    throw problem;
  }
}
