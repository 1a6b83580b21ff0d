/** The drawn rows as a table, and as a file. */

import { CSV, PARQUET, sampleFile } from "./api.js";
import { html, one } from "./dom.js";
import { cell, counted } from "./formats.js";
import { Download } from "./download.js";

export class RowsView {
  constructor(state, schema) {
    this.state = state;
    this.columns = Object.fromEntries(schema.columns.map((column) => [column.name, column]));
    this.name = schema.name;
    this.shown = "a";
    this.download = new Download(one("#rows-downloads"), {
      csv: (signal) => this.#file(CSV, signal), parquet: (signal) => this.#file(PARQUET, signal),
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
    one("#rows-words").textContent = answer
      ? `The first ${counted(answer.drawn.length, "row")} of ${counted(answer.rows, "row")} that were drawn. A file has all of them.`
      : "There are no rows yet.";
  }

  #choose(key) {
    this.shown = key;
    this.show(this.found);
  }

  #file(accept, signal) {
    return sampleFile(this.found[this.shown].question, accept, signal);
  }
}

/** Rows as a table; `mark` may say more about a cell. */
export function table(rows, columns, mark = () => null) {
  const names = Object.keys(rows[0]);
  const numeric = (name) => ["number", "integer", "duration"].includes(columns[name]?.kind);
  return html("table", {},
    html("thead", {}, html("tr", {}, names.map((name) => html("th", { scope: "col", class: numeric(name) && "numeric" }, name)))),
    html("tbody", {}, rows.map((row, place) => html("tr", {}, names.map((name) =>
      mark(place, name) ?? html("td", { class: numeric(name) && "numeric" }, cell(row[name], columns[name])))))));
}
