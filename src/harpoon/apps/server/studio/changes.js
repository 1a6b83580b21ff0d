/** Every column before and after the condition, the strongest changes first. */

import { chart, sharesOf } from "./charts.js";
import { html, one, unseen } from "./dom.js";
import { roughly } from "./formats.js";

const LONG = 70; // letters of a condition, that a heading cannot hold
let last = { order: [], asked: new Set() }; // of the last answer: while the next one is under way, nothing jumps

/**
 * @param schema     as /schema tells it
 * @param all        the scenarios that can be read, of "a" and "b"
 * @param found      the answer of each, or null while there is none
 * @param values     of the state
 */
export function showChanges(schema, all, found, values) {
  const scenarios = all.filter((key) => values[key].trim()); // without a condition a difference would be chance alone
  const answers = scenarios.filter((key) => found[key]).map((key) => [key, byName(found[key])]);
  const columns = ordered(
    schema.columns.filter((column) => column.before),
    scenarios,
    answers,
  );
  const asked = (column) => last.asked.has(column.name);
  heading(scenarios, values);
  legend(scenarios);
  const cards = (chosen) => chosen.map((column) => card(column, answers, scenarios));
  one("#changes").setAttribute("aria-busy", String(answers.length < scenarios.length));
  one("#changes").replaceChildren(...cards(columns.filter((column) => !asked(column))));
  one("#asked-columns").replaceChildren(...cards(columns.filter(asked)));
  one("#asked-part").hidden = !columns.some(asked);
}

const byName = (answer) => Object.fromEntries(answer.columns.map((column) => [column.name, column]));

function ordered(columns, scenarios, answers) {
  const names = columns.map(({ name }) => name);
  const changes = (name) => Math.max(0, ...answers.map(([, answer]) => answer[name]?.change ?? 0));
  const asked = (name) => answers.some(([, answer]) => answer[name]?.asked);
  if (answers.length || !scenarios.length) {
    last = {
      order: names.toSorted((one, other) => changes(other) - changes(one)),
      asked: new Set(names.filter(asked)),
    };
  }
  const place = ({ name }) => last.order.indexOf(name);
  return columns.toSorted((one, other) => place(one) - place(other));
}

function heading(scenarios, values) {
  one("#changes-heading").replaceChildren(
    ...(scenarios.length > 1 ? ["What A and B change"] : question(values[scenarios[0]]?.trim())),
  );
}

function question(asked) {
  if (!asked) return ["The columns, before any condition"];
  if (asked.length > LONG) return ["What else changes under this condition?"];
  return ["What else changes when ", html("code", {}, asked), "?"];
}

function legend(scenarios) {
  const keys = [
    ["before", "before, without a condition"],
    ...scenarios.map((key) => [key, `scenario ${key.toUpperCase()}`]),
  ];
  if (scenarios.length) keys.push(["change", "change: from 0 %, the same, to 100 %, nothing in common"]);
  one("#legend").replaceChildren(...keys.map(([key, words]) => html("span", { class: `key ${key}` }, words)));
}

function card(column, answers, scenarios) {
  const series = [{ key: "before", name: "before", shares: sharesOf(column.before) }];
  for (const [key, answer] of answers) {
    series.push({ key, name: key.toUpperCase(), shares: sharesOf(answer[column.name].after) });
  }
  const sentences = answers.map(([key, answer]) => [key, answer[column.name]]);
  const said = sentences.map(([key, { sentence }]) =>
    scenarios.length > 1 ? `${key.toUpperCase()}: ${sentence}` : sentence,
  );
  return html(
    "article",
    { class: "card", "data-column": column.name },
    html("h3", { title: column.name }, column.name),
    html(
      "div",
      { class: "shifts" },
      scenarios.map((key) => shift(key, sentences.find(([one]) => one === key)?.[1])),
    ),
    chart(column, series, said.join("; ") || "before the condition"),
  );
}

/** How far a column moved, as a sentence and as a measure; room is kept for what is not known yet. */
function shift(key, change) {
  const measure = html("span", { class: "measure", "aria-hidden": "true" }, html("i", {}));
  measure.firstChild.style.width = `${100 * (change?.change ?? 0)}%`;
  const moved = html("span", { class: "moved" }, unseen("changed by "), change ? roughly(change.change ?? 0) : "…");
  return html(
    "p",
    { class: "shift", "data-scenario": key },
    html("span", { class: "sentence", title: change?.sentence }, change?.sentence ?? "…"),
    moved,
    measure,
  );
}
