/** The sampled rows as a table, and as a file. */

import { CSV, PARQUET, sampleFile } from "./api.js";
import { html, one } from "./dom.js";
import { cell, count, counted } from "./formats.js";
import { Download } from "./download.js";

export class RowsView {
  constructor(state, schema) {
    this.state = state;
    this.columns = Object.fromEntries(schema.columns.map((column) => [column.name, column]));
    this.name = schema.name;
    this.shown = "a";
    this.download = new Download(one("#rows-downloads"), {
      csv: (signal) => this.#file(CSV, signal),
      parquet: (signal) => this.#file(PARQUET, signal),
      name: () => `${this.name}-${this.shown}`,
    });
    for (const key of ["a", "b"]) one(`#rows-${key}`).addEventListener("click", () => this.#choose(key));
  }

  /** Show the rows of one scenario; none until its answer is there. */
  show(found) {
    this.found = found;
    if (!this.state.scenarios.includes(this.shown)) this.shown = "a";
    one("#rows-choice").hidden = this.state.scenarios.length < 2;
    for (const key of ["a", "b"]) one(`#rows-${key}`).setAttribute("aria-pressed", String(this.shown === key));
    one("#rows-part").dataset.scenario = this.shown;
    const answer = found[this.shown];
    this.download.enable(Boolean(answer?.rows));
    one("#rows-table").replaceChildren(answer?.sampled.length ? table(answer.sampled, this.columns) : "");
    one("#rows-words").textContent = answer ? describe(answer.sampled.length, answer.rows) : "There are no rows yet.";
  }

  #choose(key) {
    this.shown = key;
    this.show(this.found);
  }

  #file(accept, signal) {
    return sampleFile(this.found[this.shown].question, accept, signal);
  }
}

function describe(shown, rows) {
  if (!rows) return "No rows were sampled.";
  if (shown === rows) return `All ${counted(rows, "row")} that were sampled.`;
  return `The first ${counted(shown, "row")} of ${counted(rows, "row")} that were sampled. A file has all of them.`;
}

/**
 * Rows as a table.
 * @param numbers  row numbers to show, if any
 * @param mark     may return the cell for the index of a row and a column
 */
export function table(rows, columns, { numbers = null, mark = () => false } = {}) {
  const names = Object.keys(rows[0]);
  const side = (name) => ["number", "integer", "duration"].includes(columns[name]?.kind) && "numeric";
  const plain = (value, name) =>
    value == null
      ? html("td", { class: `missing ${side(name) || ""}` }, "missing")
      : html("td", { class: side(name) }, cell(value, columns[name]));
  const cells = (row, index) => names.map((name) => mark(index, name) || plain(row[name], name));
  return html(
    "table",
    {},
    html(
      "thead",
      {},
      html(
        "tr",
        {},
        numbers && html("th", { scope: "col", class: "numeric" }, "row"),
        names.map((name) => html("th", { scope: "col", class: side(name) }, name)),
      ),
    ),
    html(
      "tbody",
      {},
      rows.map((row, index) =>
        html(
          "tr",
          {},
          numbers && html("th", { scope: "row", class: "numeric" }, count(numbers[index])),
          cells(row, index),
        ),
      ),
    ),
  );
}
