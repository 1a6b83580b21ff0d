/** The lines of Python and of the shell that draw the same rows. */

import { html, one } from "./dom.js";

/** Show the lines for each scenario. */
export function showCode(schema, scenarios, values) {
  const file = `${schema.name}.harpoon`;
  const questions = scenarios.map((key) => ({ key, where: values[key].trim(), n: values.n, seed: values.seed }));
  one("#python").replaceChildren(
    ...listing(
      [
        "import harpoon",
        "",
        `model = harpoon.load(${literal(file)})`,
        ...questions.map((question) => sampleInPython(question, scenarios.length)),
      ],
      "Python",
    ),
  );
  one("#shell").replaceChildren(
    ...listing(
      questions.map((question) => sampleInShell(file, question, scenarios.length)),
      "shell",
    ),
  );
}

/** A block of code with a button that copies it. */
export function listing(lines, name) {
  const text = lines.join("\n");
  const button = html(
    "button",
    { type: "button", class: "copy", "aria-label": `Copy the ${name} lines`, onclick: () => copied(button, text) },
    "Copy",
  );
  return [html("pre", { tabindex: 0, "aria-label": `${name} lines` }, html("code", {}, text)), button];
}

async function copied(button, text) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(button.previousElementSibling); // a page without https may not copy by itself
    button.textContent = "Selected";
  }
  setTimeout(() => (button.textContent = "Copy"), 1500);
}

function sampleInPython({ key, where, n, seed }, many) {
  const given = [n, ...(where ? [`where=${literal(where)}`] : []), `random_state=${seed}`];
  return `${many > 1 ? `rows_${key}` : "rows"} = model.sample(${given.join(", ")})`;
}

function sampleInShell(file, { key, where, n, seed }, many) {
  const target = many > 1 ? `rows-${key}.csv` : "rows.csv";
  return [
    "harpoon sample",
    quoted(file),
    `-n ${n}`,
    ...(where ? [`--where ${quoted(where)}`] : []),
    `--seed ${seed}`,
    `-o ${target}`,
  ].join(" ");
}

/** A text as Python writes it: JSON's spelling is one of Python's. */
export const literal = (text) => JSON.stringify(text);

/** A text as one word of the shell. */
export function quoted(text) {
  if (/^[\w./-]+$/.test(text)) return text;
  if (!/["$`\\!]/.test(text)) return `"${text}"`;
  return `'${text.replaceAll("'", "'\\''")}'`;
}
