// What of JSON Schema the contracts need: type, required, properties and items.
const types = {
  object: (value) => typeof value === "object" && value !== null && !Array.isArray(value),
  array: Array.isArray,
  number: (value) => typeof value === "number",
};

const shown = (value) => (typeof value === "string" ? `'${value}'` : JSON.stringify(value));

// Says why a value does not satisfy a schema, and where; empty if it does.
export function refusal(schema, value, at = "payload") {
  if (!types[schema.type](value)) return `${at}: ${shown(value)} is not of type '${schema.type}'`;
  for (const key of schema.required ?? []) {
    if (!(key in value)) return `${at}: '${key}' is a required property`;
  }
  for (const [key, inner] of Object.entries(schema.properties ?? {})) {
    const why = key in value ? refusal(inner, value[key], `${at}.${key}`) : "";
    if (why) return why;
  }
  for (const [place, item] of schema.items ? value.entries() : []) {
    const why = refusal(schema.items, item, `${at}[${place}]`);
    if (why) return why;
  }
  return "";
}
