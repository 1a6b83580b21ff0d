/** The second tab: fill the missing cells of a CSV, and show the uncertainty of each. */

import { CSV, PARQUET, impute, imputeFile } from "./api.js";
import { listing, literal, loading, quoted } from "./code.js";
import { Download } from "./download.js";
import { html, one, unseen } from "./dom.js";
import { example } from "./example.js";
import { cell, count, counted, listed, roughly, short } from "./formats.js";
import { Latest } from "./latest_request.js";
import { table } from "./rows.js";

const DRAWS = [20, 40]; // the second for intervals of more than 90 %
const MAX_SHOWN = 200;

export class Imputation {
  constructor(schema) {
    this.schema = schema;
    this.columns = Object.fromEntries(schema.columns.map((column) => [column.name, column]));
    this.asking = new Latest();
    this.download = new Download(one("#filled-downloads"), {
      csv: (signal) => imputeFile(this.file, this.#query, CSV, signal),
      parquet: (signal) => imputeFile(this.file, this.#query, PARQUET, signal),
      name: () => `${this.#stem}-filled`,
    });
    one("#file").addEventListener("change", ({ target }) => this.#take(target.files[0]));
    one("#example").addEventListener("click", () => this.#example());
    for (const id of ["level", "structural"]) one(`#${id}`).addEventListener("change", () => this.#fill());
    one("#structural-choice").hidden = !(schema.preset === "anchored" && schema.columns.some(({ nullable }) => nullable));
    one("#all-rows").addEventListener("change", () => this.#show());
    one("#fill-stop").addEventListener("click", () => this.#stop("Stopped. Choose the file again to start over."));
    this.#droppable(one("#drop"));
    const names = schema.columns.filter((column) => column.before).map(({ name }) => name);
    one("#expected").textContent = `The model knows the columns ${listed(names)}. Other columns are copied.`;
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

  #example() {
    this.#state("waiting");
    this.asking.ask((signal) => example(this.schema, signal), {
      answered: (file) => this.#take(file),
      refused: (error) => this.#stop(error.message),
    });
  }

  #fill() {
    if (!this.file) return;
    const { file } = this;
    this.answer = null;
    this.#state("waiting");
    this.asking.ask(
      (signal) =>
        impute(
          file,
          { draws: this.#draws, level: this.#level, ...this.#query },
          { signal, progress: (done) => this.#count(done) },
        ),
      {
        answered: (answer) => {
          this.answer = answer;
          this.#state("filled");
          this.#show();
        },
        refused: (error) => this.#stop(error.message),
      },
    );
  }

  /** What the file and the table on the page have in common. */
  get #query() {
    return { seed: 0, ...(this.#keeps && { options: JSON.stringify({ structural: "keep" }) }) };
  }

  /** Whether cells stay missing that are always missing in training rows with the same categories. */
  get #keeps() {
    return one("#structural").value === "keep";
  }

  get #level() {
    return Number(one("#level").value);
  }

  get #draws() {
    return Math.min(DRAWS[Number(this.#level > 0.9)], this.schema.limits.draws);
  }

  #count({ done, of }) {
    if (!of) return;
    one("#fill-bar").value = done / of;
    one("#fill-counter").textContent = roughly(done / of);
  }

  #stop(sentence) {
    this.asking.stop();
    this.#state("empty");
    one("#fill-error").textContent = sentence;
    one("#file").value = ""; // so that the same file can be chosen again
  }

  #state(name) {
    one("#fill").dataset.state = name;
    one("#fill-work").hidden = name !== "waiting";
    one("#filled").hidden = name !== "filled";
    one("#fill-error").textContent = "";
    one("#fill-bar").removeAttribute("value");
    one("#fill-counter").textContent = "Reading";
    this.download.enable(name === "filled");
  }

  #show() {
    const { rows, filled, notes = [] } = this.answer;
    const cells = new Map(filled.map((one) => [`${one.row} ${one.column}`, one]));
    const touched = new Set(filled.map(({ row }) => row));
    const all = one("#all-rows").checked;
    const shown = rows
      .map((_, index) => index)
      .filter((index) => all || touched.has(index))
      .slice(0, MAX_SHOWN);
    one("#filled-words").textContent = this.#words(touched.size);
    one("#filled-notes").replaceChildren(...notes.map((note) => html("p", {}, note)));
    one("#filled-counts").replaceChildren(...this.#counts());
    one("#filled-table").replaceChildren(
      shown.length
        ? table(
            shown.map((index) => rows[index]),
            this.columns,
            {
              numbers: shown.map((index) => index + 1),
              mark: (i, name) =>
                cells.has(`${shown[i]} ${name}`) &&
                filledCell(cells.get(`${shown[i]} ${name}`), this.columns[name], this.#draws),
            },
          )
        : html("p", { class: "quiet" }, this.#keeps ? "No cell was filled." : "No cell was missing."),
    );
    const hidden = (all ? rows.length : touched.size) - shown.length;
    one("#filled-more").textContent = hidden > 0 ? `and ${counted(hidden, "row")} more; the file has all of them` : "";
    this.#code();
  }

  #words(touched) {
    const { rows, filled } = this.answer;
    const cells = `${counted(filled.length, "cell")} filled in ${count(touched)} of ${counted(rows.length, "row")}`;
    return `${cells}. All other cells are unchanged.`;
  }

  #counts() {
    const counts = new Map();
    for (const { column } of this.answer.filled) counts.set(column, (counts.get(column) ?? 0) + 1);
    const order = this.schema.columns.map(({ name }) => name);
    const inOrder = [...counts].sort(([one], [other]) => order.indexOf(one) - order.indexOf(other));
    return inOrder.map(([name, number]) => html("li", {}, name, " ", html("b", {}, count(number))));
  }

  #code() {
    const [model, file, filled] = [`${this.schema.name}.harpoon`, this.file.name, `${this.#stem}-filled.csv`];
    const others = this.answer.copied_columns ?? [];
    const known = others.length ? `.drop(columns=[${others.map(literal).join(", ")}])` : "";
    const [keep, option] = this.#keeps ? [', structural="keep"', " --option structural=keep"] : ["", ""];
    one("#fill-python").replaceChildren(
      ...listing(
        [
          ...loading(model, ["import pandas as pd"]),
          `table = pd.read_csv(${literal(file)})${known}`,
          `filled = model.impute(table${keep})`,
          `low, high = model.impute(table, draws=${this.#draws}${keep}, random_state=0).interval(${this.#level})`,
        ],
        "Python",
      ),
    );
    one("#fill-shell").replaceChildren(
      ...listing([`harpoon impute ${quoted(model)} ${quoted(file)} -o ${quoted(filled)}${option}`], "shell"),
    );
  }
}

/** A filled cell: its value, and its interval or the number of draws with its category. */
function filledCell({ value, low, high, probability }, column, draws) {
  const agreement = probability != null ? `in ${Math.round(draws * probability)} of ${draws} draws` : "";
  const uncertainty = low != null ? `${short(low, column)} to ${short(high, column)}` : agreement;
  return html(
    "td",
    { class: `filled${low != null ? " numeric" : ""}` },
    unseen("filled: "),
    cell(value, column),
    uncertainty && html("small", {}, uncertainty),
  );
}
