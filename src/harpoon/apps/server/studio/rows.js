/** The drawn rows as a table, and as a file. */

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

  /** Show the rows of one scenario; none while its answer is under way. */
  show(found) {
    this.found = found;
    if (!this.state.scenarios.includes(this.shown)) this.shown = "a";
    one("#rows-choice").hidden = this.state.scenarios.length < 2;
    for (const key of ["a", "b"]) one(`#rows-${key}`).setAttribute("aria-pressed", String(this.shown === key));
    one("#rows-part").dataset.scenario = this.shown;
    const answer = found[this.shown];
    this.download.allow(Boolean(answer));
    one("#rows-table").replaceChildren(answer?.drawn.length ? table(answer.drawn, this.columns) : "");
    one("#rows-words").textContent = answer ? told(answer.drawn.length, answer.rows) : "There are no rows yet.";
  }

  #choose(key) {
    this.shown = key;
    this.show(this.found);
  }

  #file(accept, signal) {
    return sampleFile(this.found[this.shown].question, accept, signal);
  }
}

function told(shown, rows) {
  if (shown === rows) return `All ${counted(rows, "row")} that were drawn.`;
  return `The first ${counted(shown, "row")} of ${counted(rows, "row")} that were drawn. A file has all of them.`;
}

/**
 * Rows as a table.
 * @param numbers  of the rows, where they are not simply the first ones
 * @param mark     may give the cell of a row, by its place, and a column
 */
export function table(rows, columns, { numbers = null, mark = () => false } = {}) {
  const names = Object.keys(rows[0]);
  const side = (name) => ["number", "integer", "duration"].includes(columns[name]?.kind) && "numeric";
  const cells = (row, place) =>
    names.map((name) => mark(place, name) || html("td", { class: side(name) }, cell(row[name], columns[name])));
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
      rows.map((row, place) =>
        html(
          "tr",
          {},
          numbers && html("th", { scope: "row", class: "numeric" }, count(numbers[place])),
          cells(row, place),
        ),
      ),
    ),
  );
}
