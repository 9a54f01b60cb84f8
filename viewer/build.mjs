// Builds the one file that the Python package carries: ../simkit/viewer/report.html.
//
// Script and style stand in the page, and the policy in its head allows these two alone, by their
// hashes. The data come later, in place of {{simkit-data}}: a script element of JSON, which no
// browser runs.
import { build } from "esbuild";
import { createHash } from "node:crypto";
import { readFile, writeFile } from "node:fs/promises";

const target = process.argv[2] ?? "../simkit/viewer/report.html";

const hashOf = (text) => `'sha256-${createHash("sha256").update(text).digest("base64")}'`;

const bundled = async (entry) => {
  const result = await build({
    entryPoints: [entry],
    bundle: true,
    minify: true,
    write: false,
    format: "iife",
    target: "es2022",
    jsx: "automatic",
    jsxImportSource: "preact",
    charset: "utf8",
    legalComments: "none",
  });
  const text = result.outputFiles[0].text.trim();
  if (/<\/(script|style)/i.test(text)) {
    throw new Error(`${entry}: the text ends its own element`);
  }
  return text;
};

const script = await bundled("src/main.tsx");
const style = await bundled("src/style.css");
const policy = [
  "default-src 'none'",
  `script-src ${hashOf(script)}`,
  `style-src ${hashOf(style)}`,
  "base-uri 'none'",
  "form-action 'none'",
].join("; ");
const page = (await readFile("src/page.html", "utf8"))
  .replace("{{policy}}", () => policy)
  .replace("{{style}}", () => style)
  .replace("{{script}}", () => script);
await writeFile(target, page);
console.log(`${target}: ${page.length} characters`);
