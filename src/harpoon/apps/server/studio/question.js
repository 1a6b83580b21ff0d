/** The left side: the condition of a scenario, as text and as a control for each column, in step with each other. */

import { condition } from "./api.js";
import { ChipControl } from "./chips.js";
import { html, one } from "./dom.js";
import { lineOf, roughly, short } from "./formats.js";
import { Latest } from "./latest.js";
import { RangeControl, upperQuarter } from "./range.js";

const TYPING = 350; // milliseconds without a key, after which a text is read
const SLIDING = 90;
const MANY_COLUMNS = 8;
const NOTHING = { controls: {}, rest: "" }; // what an empty text says

export class Question {
  constructor(state, schema) {
    this.state = state;
    this.text = one("#where");
    this.chosen = {}; // what the controls say, by column
    this.rest = ""; // what only the text can say
    this.unsettled = false; // whether something was moved or typed that has not been asked for
    this.read = true; // whether a new text is read, which one that the controls made need not be
    this.reading = new Latest();
    this.writing = new Latest();
    this.controls = new Map(
      schema.columns.filter((column) => column.before).map((column) => [column.name, this.#control(column)]),
    );
    this.#columns(schema);
    this.text.addEventListener("input", () => this.#typed());
    this.#suggest(schema.columns.find((column) => column.before && lineOf(column)));
    one("#clear").addEventListener("click", () => this.#ask(""));
    for (const key of ["a", "b"]) one(`#edit-${key}`).addEventListener("click", () => this.#edit(key));
    one("#drop-b").addEventListener("click", () => {
      this.#settle();
      state.change({ b: null, editing: "a" });
    });
    state.addEventListener("change", ({ detail }) => this.#follow(detail));
    this.#shown();
    this.#read();
  }

  get where() {
    return this.state.values[this.state.values.editing] ?? "";
  }

  #control(column) {
    const changed = (choice) => this.#chose(column.name, choice);
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
    const missing = column.missing_share > 0 ? `, ${roughly(column.missing_share)} missing` : "";
    const free = html(
      "button",
      {
        type: "button",
        class: "free",
        "aria-label": `Any ${column.name}`,
        onclick: () => this.#chose(column.name, null, { show: true }),
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

  /** A first question, for who has none yet: the upper quarter of a column. */
  #suggest(column) {
    const button = one("#suggestion");
    if (!column) return;
    const low = upperQuarter(column);
    button.textContent = `${column.name} at least ${short(low, column)}`;
    button.addEventListener("click", () => this.#chose(column.name, { low, high: null }, { show: true }));
  }

  #edit(key) {
    this.#settle();
    const { values } = this.state;
    this.state.change(key === "b" && values.b === null ? { b: values.a, editing: "b" } : { editing: key });
    this.text.focus();
  }

  /** A control was moved: the server writes the text. */
  #chose(name, choice, { show = false } = {}) {
    this.chosen = { ...this.chosen, [name]: choice };
    if (choice === null) delete this.chosen[name];
    if (show) this.controls.get(name).show(choice);
    this.#marked();
    this.reading.stop();
    this.#pending();
    const wanted = { controls: this.chosen, ...(this.rest && { rest: this.rest }) };
    this.writing.ask((signal) => condition(wanted, signal), {
      pause: SLIDING,
      answered: ({ where }) => this.#wrote(where ?? ""),
      refused: (error) => this.#told(error.message),
    });
  }

  #busy(busy) {
    one("#question").setAttribute("aria-busy", String(busy));
  }

  #wrote(where) {
    this.text.value = where;
    this.#told("");
    this.#ask(where, { read: false });
  }

  #typed() {
    this.writing.stop();
    this.#pending();
    const where = this.text.value;
    this.reading.ask(async () => where, { pause: TYPING, answered: () => this.#ask(where), refused: () => {} });
  }

  /** The text is what counts: it goes into the address, and the answer follows it. */
  #ask(where, { read = true } = {}) {
    this.unsettled = false;
    this.read = read;
    const { editing } = this.state.values;
    const same = this.where === where;
    this.state.change({ [editing]: where });
    if (same) this.state.dispatchEvent(new CustomEvent("change", { detail: new Set([editing]) }));
  }

  /** Before another scenario is changed, this one is asked for as its text stands. */
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
    this.#shown();
    if (!changed.has("editing") && !changed.has(editing)) return;
    if (this.read) this.#read();
    this.read = true;
  }

  /** The server reads the text: the controls show what they can of it. */
  #read() {
    const where = this.where;
    if (this.text.value !== where) this.text.value = where; // an equal value would move the cursor
    this.writing.stop();
    this.#busy(true);
    this.reading.ask(async (signal) => (where.trim() ? condition({ where }, signal) : NOTHING), {
      answered: ({ controls, rest }) => this.#understood(controls, rest ?? ""),
      refused: (error) => this.#puzzled(error.message),
    });
  }

  /** What the text says is not known: a control that moved now would write over it. */
  #puzzled(sentence) {
    this.#understood({}, "");
    this.#told(sentence);
    one("#columns").inert = true;
  }

  #understood(controls, rest) {
    this.chosen = controls;
    this.rest = rest;
    for (const [name, control] of this.controls) control.show(Object.hasOwn(controls, name) ? controls[name] : null);
    this.#told("");
    this.#marked();
    one("#columns").inert = false;
  }

  #marked() {
    for (const card of one("#columns").children) {
      card.classList.toggle("asked", Object.hasOwn(this.chosen, card.dataset.column));
    }
    const beyond = one("#beyond");
    beyond.hidden = !this.rest;
    beyond.textContent = `Only the text can say this, and it is kept: ${this.rest}`;
  }

  #told(sentence) {
    this.#busy(false);
    one("#where-error").textContent = sentence;
    this.text.setAttribute("aria-invalid", String(Boolean(sentence)));
  }

  #shown() {
    const { editing, b } = this.state.values;
    one("#question").dataset.scenario = editing;
    one("#hint").hidden = Boolean(this.where) || !one("#suggestion").textContent;
    for (const key of ["a", "b"]) one(`#edit-${key}`).setAttribute("aria-pressed", String(editing === key));
    one("#edit-b").classList.toggle("absent", b === null);
    one("#edit-b-words").textContent = b === null ? "Compare with B" : "Scenario B";
    one("#drop-b").hidden = b === null;
  }
}
