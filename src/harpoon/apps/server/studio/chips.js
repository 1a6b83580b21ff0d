/** The control of a categorical column: one chip per category, with its fraction. No pressed chip allows all. */

import { nameOf } from "./charts.js";
import { html } from "./dom.js";
import { roughly } from "./formats.js";

const MAX_SHOWN = 12;

export class ChipControl {
  /**
   * @param column   from /schema
   * @param changed  called with {categories}, or null for no condition
   */
  constructor(column, changed) {
    this.column = column;
    this.changed = changed;
    this.chosen = new Set();
    this.chips = new Map(); // those that are shown, by category
    this.search = "";
    this.fractions = new Map(column.categories.map((name, index) => [name, column.before.fractions[index]]));
    this.categories = column.ordered
      ? column.categories
      : column.categories.toSorted((one, other) => this.fractions.get(other) - this.fractions.get(one));
    this.list = html("div", { class: "chips", role: "group", "aria-label": `${column.name}, allowed categories` });
    this.node = html("div", {}, this.#search(), this.list);
    this.show(null);
  }

  /** Show a choice of categories, or none. */
  show(choice) {
    this.chosen = new Set(choice?.categories ?? []);
    this.#paint();
  }

  #search() {
    if (this.categories.length <= MAX_SHOWN) return null;
    return html("input", {
      type: "search",
      placeholder: `Find one of ${this.categories.length} categories`,
      "aria-label": `${this.column.name}, find a category`,
      oninput: (event) => {
        this.search = event.target.value.trim().toLowerCase();
        this.#paint();
      },
    });
  }

  #paint() {
    const found = this.categories.filter((category) => String(category).toLowerCase().includes(this.search));
    const first = found.filter((category) => this.chosen.has(category));
    const others = found.filter((category) => !this.chosen.has(category));
    const many = this.categories.length > MAX_SHOWN;
    const shown = many ? [...first, ...others.slice(0, Math.max(MAX_SHOWN - first.length, 4))] : this.categories;
    const focused = [...this.chips].find(([, chip]) => chip === document.activeElement);
    this.chips = new Map(shown.map((category) => [category, this.#chip(category)]));
    this.list.replaceChildren(
      ...this.chips.values(),
      ...(found.length > shown.length
        ? [html("span", { class: "quiet" }, `and ${found.length - shown.length} more`)]
        : []),
      ...(found.length ? [] : [html("span", { class: "quiet" }, "No category has these letters.")]),
    );
    if (focused) this.chips.get(focused[0])?.focus();
  }

  #chip(category) {
    const fraction = this.fractions.get(category);
    const chip = html(
      "button",
      {
        type: "button",
        class: "chip",
        "aria-pressed": String(this.chosen.has(category)),
        onclick: () => this.#press(category),
      },
      html("span", { class: "name" }, nameOf(category)),
      html("small", {}, roughly(fraction)),
    );
    chip.style.setProperty("--fraction", `${100 * fraction}%`);
    return chip;
  }

  /** Allowing every category, or none, is no condition. */
  #press(category) {
    if (!this.chosen.delete(category)) this.chosen.add(category);
    if (this.chosen.size === this.categories.length) this.chosen.clear();
    this.#paint();
    const categories = this.column.categories.filter((one) => this.chosen.has(one));
    this.changed(categories.length ? { categories } : null);
  }
}
