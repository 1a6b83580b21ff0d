/** The left side: the condition of a scenario as text and as one control per column. Each follows the other. */

import { condition } from "./api.js";
import { ChipControl } from "./chips.js";
import { html, one } from "./dom.js";
import { lineOf, roughly, short } from "./formats.js";
import { Latest } from "./latest_request.js";
import { RangeControl, upperQuarter } from "./range.js";

const TYPING = 350; // milliseconds after the last key, before the text is read
const SLIDING = 90;
const MANY_COLUMNS = 8;
const NOTHING = { controls: {}, rest: "" }; // an empty text

export class Question {
  constructor(state, schema) {
    this.state = state;
    this.text = one("#where");
    this.chosen = {}; // the controls, by column
    this.rest = ""; // what no control can show
    this.unsettled = false; // whether a change has not been sent yet
    this.read = true; // whether to read a new text; one that the controls made need not be read
    this.reading = new Latest();
    this.writing = new Latest();
    this.controls = new Map(
      schema.columns.filter((column) => column.before).map((column) => [column.name, this.#control(column)]),
    );
    this.#columns(schema);
    this.text.addEventListener("input", () => this.#type());
    this.#suggest(schema.columns.find((column) => column.before && lineOf(column)));
    one("#clear").addEventListener("click", () => this.#ask(""));
    for (const key of ["a", "b"]) one(`#edit-${key}`).addEventListener("click", () => this.#edit(key));
    one("#drop-b").addEventListener("click", () => {
      this.#settle();
      state.change({ b: null, editing: "a" });
    });
    state.addEventListener("change", ({ detail }) => this.#follow(detail));
    this.#show();
    this.#read();
  }

  get where() {
    return this.state.values[this.state.values.editing] ?? "";
  }

  #control(column) {
    const changed = (choice) => this.#choose(column.name, choice);
    return lineOf(column) ? new RangeControl(column, changed) : new ChipControl(column, changed);
  }

  #columns(schema) {
    const cards = schema.columns.filter((column) => column.before).map((column) => this.#card(column));
    const without = schema.columns.filter((column) => !column.before);
    one("#columns").replaceChildren(...cards);
    one("#not-modelled").textContent = without.length
      ? `Not modelled: ${without.map(({ name, kind }) => `${name} (${kind})`).join(", ")}.`
      : "";
    const search = one("#find-column");
    search.hidden = cards.length <= MANY_COLUMNS;
    search.addEventListener("input", () => {
      const sought = search.value.trim().toLowerCase();
      for (const card of cards) card.hidden = !card.dataset.column.toLowerCase().includes(sought);
    });
  }

  #card(column) {
    const missing = column.missing_fraction > 0 ? `, ${roughly(column.missing_fraction)} missing` : "";
    const free = html(
      "button",
      {
        type: "button",
        class: "free",
        "aria-label": `Any ${column.name}`,
        onclick: () => this.#choose(column.name, null, { show: true }),
      },
      "any",
    );
    return html(
      "section",
      { class: "column", "data-column": column.name, "aria-label": column.name },
      html(
        "header",
        {},
        html("h3", { title: column.name }, column.name),
        html("span", { class: "quiet" }, column.kind, missing),
        free,
      ),
      this.controls.get(column.name).node,
    );
  }

  /** Suggest a first condition: the upper quarter of a column. */
  #suggest(column) {
    const button = one("#suggestion");
    if (!column) return;
    const low = upperQuarter(column);
    button.textContent = `${column.name} at least ${short(low, column)}`;
    button.addEventListener("click", () => this.#choose(column.name, { low, high: null }, { show: true }));
  }

  #edit(key) {
    this.#settle();
    const { values } = this.state;
    this.state.change(key === "b" && values.b === null ? { b: values.a, editing: "b" } : { editing: key });
    this.text.focus();
  }

  /** A control was moved: the server writes the text. */
  #choose(name, choice, { show = false } = {}) {
    this.chosen = { ...this.chosen, [name]: choice };
    if (choice === null) delete this.chosen[name];
    if (show) this.controls.get(name).show(choice);
    this.#mark();
    this.reading.stop();
    this.#pending();
    const wanted = { controls: this.chosen, ...(this.rest && { rest: this.rest }) };
    this.writing.ask((signal) => condition(wanted, signal), {
      pause: SLIDING,
      answered: ({ where }) => this.#setText(where ?? ""),
      refused: (error) => this.#showError(error.message),
    });
  }

  #busy(busy) {
    one("#question").setAttribute("aria-busy", String(busy));
  }

  #setText(where) {
    this.text.value = where;
    this.#showError("");
    this.#ask(where, { read: false });
  }

  #type() {
    this.writing.stop();
    this.#pending();
    const where = this.text.value;
    this.reading.ask(async () => where, { pause: TYPING, answered: () => this.#ask(where), refused: () => {} });
  }

  /** Put the text into the address; the answer follows it. */
  #ask(where, { read = true } = {}) {
    this.unsettled = false;
    this.read = read;
    const { editing } = this.state.values;
    const same = this.where === where;
    this.state.change({ [editing]: where });
    if (same) this.state.dispatchEvent(new CustomEvent("change", { detail: new Set([editing]) }));
  }

  /** Send the text of this scenario before another one is edited. */
  #settle() {
    if (this.unsettled) this.#ask(this.text.value);
  }

  #pending() {
    this.unsettled = true;
    this.#busy(true);
    this.state.dispatchEvent(new CustomEvent("pending", { detail: this.state.values.editing }));
  }

  #follow(changed) {
    const { editing } = this.state.values;
    this.#show();
    if (!changed.has("editing") && !changed.has(editing)) return;
    if (this.read) this.#read();
    this.read = true;
  }

  /** Let the server read the text, and show it in the controls. */
  #read() {
    const where = this.where;
    if (this.text.value !== where) this.text.value = where; // an equal value would move the cursor
    this.writing.stop();
    this.#busy(true);
    this.reading.ask(async (signal) => (where.trim() ? condition({ where }, signal) : NOTHING), {
      answered: ({ controls, rest }) => this.#showControls(controls, rest ?? ""),
      refused: (error) => this.#showUnreadable(error.message),
    });
  }

  /** The text cannot be read: a control that moved now would overwrite it. */
  #showUnreadable(sentence) {
    this.#showControls({}, "");
    this.#showError(sentence);
    one("#columns").inert = true;
  }

  #showControls(controls, rest) {
    this.chosen = controls;
    this.rest = rest;
    for (const [name, control] of this.controls) control.show(Object.hasOwn(controls, name) ? controls[name] : null);
    this.#showError("");
    this.#mark();
    one("#columns").inert = false;
  }

  #mark() {
    for (const card of one("#columns").children) {
      card.classList.toggle("restricted", Object.hasOwn(this.chosen, card.dataset.column));
    }
    const rest = one("#rest");
    rest.hidden = !this.rest;
    rest.textContent = `Also required, as text only: ${this.rest}`;
  }

  #showError(sentence) {
    this.#busy(false);
    one("#where-error").textContent = sentence;
    this.text.setAttribute("aria-invalid", String(Boolean(sentence)));
  }

  #show() {
    const { editing, b } = this.state.values;
    one("#question").dataset.scenario = editing;
    one("#hint").hidden = Boolean(this.where) || !one("#suggestion").textContent;
    for (const key of ["a", "b"]) one(`#edit-${key}`).setAttribute("aria-pressed", String(editing === key));
    one("#edit-b").classList.toggle("absent", b === null);
    one("#edit-b-words").textContent = b === null ? "Compare with B" : "Scenario B";
    one("#drop-b").hidden = b === null;
  }
}
