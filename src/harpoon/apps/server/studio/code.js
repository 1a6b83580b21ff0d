/** Code in Python and in the shell that samples the same rows. */

import { html, one } from "./dom.js";
import { inNotebook } from "./page_host.js";

/** Show the code of each scenario whose condition can be read. */
export function showCode(schema, scenarios, values) {
  const file = `${schema.name}.harpoon`;
  const { n, seed, strategy, missing } = values;
  const named = (key) => (scenarios.length > 1 ? `rows_${key}` : "rows");
  const questions = scenarios.map((key) => ({ name: named(key), where: values[key].trim(), n, seed, strategy, missing }));
  one("#link").replaceChildren(...listing([location.href], "address"));
  one("#code-part").hidden = !scenarios.length;
  one("#python").replaceChildren(...listing([...loading(file), ...questions.map(inPython)], "Python"));
  one("#shell").replaceChildren(
    ...listing(
      questions.map((question) => inShell(file, question)),
      "shell",
    ),
  );
}

/** The lines of Python that load the model and import packages; a notebook has the model. */
export function loading(file, imports = []) {
  return inNotebook ? imports : ["import harpoon", ...imports, "", `model = harpoon.load(${literal(file)})`];
}

/** A block of code with a button that copies it. */
export function listing(lines, name) {
  const text = lines.join("\n");
  const button = html(
    "button",
    { type: "button", class: "copy", "aria-label": `Copy the ${name} lines`, onclick: () => copy(button, text) },
    "Copy",
  );
  return [html("pre", { tabindex: 0, "aria-label": `${name} lines` }, html("code", {}, text)), button];
}

async function copy(button, text) {
  try {
    await navigator.clipboard.writeText(text);
    button.textContent = "Copied";
  } catch {
    getSelection().selectAllChildren(button.previousElementSibling); // a page without https may not use the clipboard
    button.textContent = "Selected";
  }
  setTimeout(() => (button.textContent = "Copy"), 1500);
}

function inPython({ name, where, n, seed, strategy, missing }) {
  const condition = where
    ? [`where=${literal(where)}`, ...(strategy === "auto" ? [] : [`strategy=${literal(strategy)}`])]
    : [];
  const filled = missing === "complete" ? [`missing=${literal(missing)}`] : [];
  return `${name} = model.sample(${[n, ...condition, ...filled, `random_state=${seed}`].join(", ")})`;
}

function inShell(file, { name, where, n, seed, strategy, missing }) {
  const condition = where
    ? [`--where ${quoted(where)}`, ...(strategy === "auto" ? [] : [`--strategy ${strategy}`])]
    : [];
  const filled = missing === "complete" ? ["--complete"] : [];
  return ["harpoon sample", quoted(file), `-n ${n}`, ...condition, ...filled, `--seed ${seed}`, `-o ${name}.csv`].join(" ");
}

/** A text as a Python literal, which JSON is too. */
export const literal = (text) => JSON.stringify(text);

/** A text as one word of the shell. */
export function quoted(text) {
  if (/^[\w./-]+$/.test(text)) return text;
  if (!/["$`\\!]/.test(text)) return `"${text}"`;
  return `'${text.replaceAll("'", "'\\''")}'`;
}
