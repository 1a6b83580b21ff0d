/** Every column without and with the condition, the strongest changes first. */

import { chart } from "./charts.js";
import { html, one, unseen } from "./dom.js";
import { roughly } from "./formats.js";

const MAX_HEADING = 70; // letters of a condition in the heading
let last = { order: [], inCondition: new Set(), before: {} }; // of the last answer, so that nothing jumps before the next

/**
 * @param schema     from /schema
 * @param all        the scenarios that can be read, of "a" and "b"
 * @param found      the answer of each, or null while there is none
 * @param values     of the state
 */
export function showChanges(schema, all, found, values) {
  const scenarios = all.filter((key) => values[key].trim()); // without a condition a difference would only be noise
  const answers = scenarios.filter((key) => found[key]).map((key) => [key, byName(found[key])]);
  const answered = all.map((key) => found[key]).find(Boolean);
  if (answered) last.before = byName(answered);
  const columns = ordered(
    schema.columns.filter((column) => column.before),
    scenarios,
    answers,
  );
  const inCondition = (column) => last.inCondition.has(column.name);
  heading(scenarios, values);
  const free = scenarios.length ? null : found[all[0]];
  legend(scenarios, found, free);
  const cards = (chosen) => chosen.map((column) => card(column, answers, scenarios, free));
  one("#changes").setAttribute("aria-busy", String(answers.length < scenarios.length));
  one("#changes").replaceChildren(...cards(columns.filter((column) => !inCondition(column))));
  one("#condition-columns").replaceChildren(...cards(columns.filter(inCondition)));
  one("#condition-part").hidden = !columns.some(inCondition);
}

const byName = (answer) => Object.fromEntries(answer.columns.map((column) => [column.name, column]));

function ordered(columns, scenarios, answers) {
  const names = columns.map(({ name }) => name);
  const changes = (name) => Math.max(0, ...answers.map(([, answer]) => rank(answer[name])));
  const inCondition = (name) => answers.some(([, answer]) => answer[name]?.in_condition);
  if (answers.length || !scenarios.length) {
    last = {
      ...last,
      order: names.toSorted((one, other) => changes(other) - changes(one)),
      inCondition: new Set(names.filter(inCondition)),
    };
  }
  const index = ({ name }) => last.order.indexOf(name);
  return columns.toSorted((one, other) => index(one) - index(other));
}

/** The change beyond chance decides; among columns that do not exceed it, the change itself. */
const rank = (column) => Math.max((column?.change ?? 0) - (column?.noise ?? 0), 0) + 1e-6 * (column?.change ?? 0);

function heading(scenarios, values) {
  one("#changes-heading").replaceChildren(
    ...(scenarios.length > 1 ? ["What A and B change"] : question(values[scenarios[0]]?.trim())),
  );
}

function question(where) {
  if (!where) return ["The columns, without a condition"];
  if (where.length > MAX_HEADING) return ["What else changes under this condition?"];
  return ["What else changes when ", html("code", {}, where), "?"];
}

function legend(scenarios, found, free) {
  const keys = [
    ["before", "without a condition"],
    ...scenarios.map((key) => [key, `scenario ${key.toUpperCase()}`]),
  ];
  for (const key of scenarios.filter((one) => found[one]?.real?.rows))
    keys.push([`real ${key}`, `real rows that satisfy ${key.toUpperCase()}`]);
  if (free?.columns.some(({ real }) => real)) keys.push(["real a", "real rows"]);
  keys.push(["height", "height: share of the rows"]);
  if (scenarios.length) keys.push(["change", "change: 0 % is the same distribution, 100 % has nothing in common"]);
  if (scenarios.length) keys.push(["height", "order: by the change beyond chance"]);
  one("#legend").replaceChildren(...keys.map(([key, words]) => html("span", { class: `key ${key}` }, words)));
}

/** @param free  the answer without any condition, beside which the real rows are shown; null if there is a condition */
function card(column, answers, scenarios, free) {
  const before = last.before[column.name]?.before ?? column.before; // missing cells are filled there, if that is asked
  const series = [{ key: "before", name: scenarios.length ? "before" : "sampled", ...before }];
  const real = free?.columns.find(({ name }) => name === column.name)?.real;
  if (real) series.push({ key: "real a", name: "real", ...real });
  for (const [key, answer] of answers) {
    const { after, real } = answer[column.name];
    if (real) series.push({ key: `real ${key}`, name: `real ${key.toUpperCase()}`, ...real });
    series.push({ key, name: key.toUpperCase(), ...after });
  }
  const sentences = answers.map(([key, answer]) => [key, answer[column.name]]);
  const texts = sentences.map(([key, { sentence }]) =>
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
    chart(column, series, texts.join("; ") || "without a condition"),
    column.nullable && missingCells(column, series),
  );
}

/** The fraction of missing cells, of the training table and of sampled rows. */
function missingCells(column, series) {
  return html(
    "p",
    { class: "missing values" },
    `missing: in the table ${roughly(column.missing_fraction)}`,
    series.map(({ key, name, missing }) => html("b", { class: key }, `${name} ${roughly(missing)}`)),
  );
}

/** The change of a column as a sentence and as a bar; an answer that is not there yet has its place. */
function shift(key, change) {
  const measure = html("span", { class: "measure", "aria-hidden": "true" }, html("i", {}));
  measure.firstChild.style.width = `${100 * (change?.change ?? 0)}%`;
  const moved = html("span", { class: "moved" }, unseen("changed by "), change ? roughly(change.change ?? 0) : "…");
  return html(
    "p",
    { class: "shift", "data-scenario": key },
    html("span", { class: "sentence", title: change?.sentence }, change?.sentence ?? "…"),
    change?.interval_text && html("span", { class: "interval" }, change.interval_text),
    measure,
    moved,
  );
}
