/** The second tab: a CSV with holes in, the same table without them out, and how sure each new cell is. */

import { CSV, PARQUET, impute, imputeFile } from "./api.js";
import { listing, literal, quoted } from "./code.js";
import { Download } from "./download.js";
import { html, one, unseen } from "./dom.js";
import { cell, count, counted, percent, roughly, short } from "./formats.js";
import { Latest } from "./latest.js";
import { table } from "./rows.js";

const DRAWS = 40; // enough for intervals of 95 %
const MOST_SHOWN = 200;

export class Filling {
  constructor(schema) {
    this.schema = schema;
    this.columns = Object.fromEntries(schema.columns.map((column) => [column.name, column]));
    this.asking = new Latest();
    this.download = new Download(one("#filled-downloads"), {
      csv: (signal) => imputeFile(this.file, { seed: 0 }, CSV, signal),
      parquet: (signal) => imputeFile(this.file, { seed: 0 }, PARQUET, signal),
      name: () => `${this.#stem}-filled`,
    });
    one("#file").addEventListener("change", ({ target }) => this.#take(target.files[0]));
    one("#level").addEventListener("change", () => this.#fill());
    one("#all-rows").addEventListener("change", () => this.#show());
    one("#fill-stop").addEventListener("click", () => this.#rest("Stopped. Choose the file again to go on."));
    this.#droppable(one("#drop"));
    this.#state("empty");
  }

  get #stem() {
    return this.file.name.replace(/\.[^.]*$/, "");
  }

  #droppable(place) {
    for (const name of ["dragenter", "dragover", "dragleave", "drop"]) {
      place.addEventListener(name, (event) => {
        event.preventDefault();
        place.classList.toggle("over", name === "dragenter" || name === "dragover");
        if (name === "drop") this.#take(event.dataTransfer.files[0]);
      });
    }
  }

  #take(file) {
    if (!file) return;
    this.file = file;
    one("#file-name").textContent = file.name;
    this.#fill();
  }

  #fill() {
    if (!this.file) return;
    const { file } = this;
    const level = Number(one("#level").value);
    this.answer = null;
    this.#state("waiting");
    this.asking.ask((signal) => impute(file, { draws: this.#draws, level, seed: 0 }, { signal, progress: (done) => this.#count(done) }), {
      answered: (answer) => {
        this.answer = answer;
        this.#state("filled");
        this.#show();
      },
      refused: (error) => this.#rest(error.message),
    });
  }

  get #draws() {
    return Math.min(DRAWS, this.schema.limits?.draws ?? DRAWS);
  }

  #count({ done, of }) {
    one("#fill-bar").value = done / of;
    one("#fill-counter").textContent = roughly(done / of);
  }

  #rest(sentence) {
    this.asking.stop();
    this.#state("empty");
    one("#fill-error").textContent = sentence;
    one("#file").value = ""; // so that the same file can be chosen again
  }

  #state(name) {
    one("#fill-work").hidden = name !== "waiting";
    one("#filled").hidden = name !== "filled";
    one("#fill-error").textContent = "";
    one("#fill-bar").removeAttribute("value");
    one("#fill-counter").textContent = "Reading";
    this.download.allow(name === "filled");
  }

  #show() {
    const { rows, filled, notes = [] } = this.answer;
    const cells = new Map(filled.map((one) => [`${one.row} ${one.column}`, one]));
    const touched = new Set(filled.map(({ row }) => row));
    const all = one("#all-rows").checked;
    const places = rows.map((_, place) => place).filter((place) => all || touched.has(place)).slice(0, MOST_SHOWN);
    one("#filled-words").textContent = this.#words(touched.size);
    one("#filled-notes").replaceChildren(...notes.map((note) => html("p", {}, note)));
    one("#filled-counts").replaceChildren(...this.#counts());
    one("#filled-table").replaceChildren(places.length
      ? table(places.map((place) => ({ row: place + 1, ...rows[place] })), this.columns, (i, name) => {
        const found = cells.get(`${places[i]} ${name}`);
        return found && filledCell(found, this.columns[name]);
      })
      : html("p", { class: "quiet" }, "No cell was missing: the table comes back as it is."));
    const hidden = (all ? rows.length : touched.size) - places.length;
    one("#filled-more").textContent = hidden > 0 ? `and ${counted(hidden, "row")} more; a file has all of them` : "";
    this.#code();
  }

  #words(touched) {
    const { rows, filled } = this.answer;
    return `${counted(filled.length, "cell")} filled in ${count(touched)} of ${counted(rows.length, "row")}. Every other cell is as it was.`;
  }

  #counts() {
    const counts = new Map();
    for (const { column } of this.answer.filled) counts.set(column, (counts.get(column) ?? 0) + 1);
    return [...counts].map(([name, number]) => html("li", {}, name, " ", html("b", {}, count(number))));
  }

  #code() {
    const [model, file, filled] = [`${this.schema.name}.harpoon`, this.file.name, `${this.#stem}-filled.csv`];
    const level = Number(one("#level").value);
    one("#fill-python").replaceChildren(...listing([
      "import harpoon", "import pandas as pd", "", `model = harpoon.load(${literal(model)})`, `table = pd.read_csv(${literal(file)})`,
      "filled = model.impute(table)", `low, high = model.impute(table, draws=${this.#draws}, random_state=0).interval(${level})`,
    ], "Python"));
    one("#fill-shell").replaceChildren(...listing([`harpoon impute ${quoted(model)} ${quoted(file)} -o ${quoted(filled)}`], "shell"));
  }
}

/** A new cell: its value, and between what it lies or how probable it is. */
function filledCell({ value, low, high, probability }, column) {
  const sure = low != null ? `${short(low, column)} to ${short(high, column)}` : probability != null ? percent(probability) : "";
  return html("td", { class: `filled${low != null ? " numeric" : ""}` }, unseen("filled: "), cell(value, column), sure && html("small", {}, sure));
}
