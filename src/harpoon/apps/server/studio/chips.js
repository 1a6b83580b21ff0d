/** A column of labels: a chip for each, with its share. Those that are pressed are allowed; none pressed allows all. */

import { nameOf } from "./charts.js";
import { html } from "./dom.js";
import { roughly } from "./formats.js";

const MOST_SHOWN = 12;

export class ChipControl {
  /**
   * @param column   as /schema tells it
   * @param changed  called with {labels}, or null where the column is free
   */
  constructor(column, changed) {
    this.column = column;
    this.changed = changed;
    this.chosen = new Set();
    this.chips = new Map(); // those that are shown, by their labels
    this.sought = "";
    this.shares = new Map(column.labels.map((label, place) => [label, column.before.shares[place]]));
    this.labels = column.ordered
      ? column.labels
      : column.labels.toSorted((one, other) => this.shares.get(other) - this.shares.get(one));
    this.list = html("div", { class: "chips", role: "group", "aria-label": `${column.name}, allowed labels` });
    this.node = html("div", {}, this.#search(), this.list);
    this.show(null);
  }

  /** Show a choice of labels, or that there is none. */
  show(choice) {
    this.chosen = new Set(choice?.labels ?? []);
    this.#painted();
  }

  #search() {
    if (this.labels.length <= MOST_SHOWN) return null;
    return html("input", {
      type: "search",
      placeholder: `Find one of ${this.labels.length} labels`,
      "aria-label": `${this.column.name}, find a label`,
      oninput: (event) => {
        this.sought = event.target.value.trim().toLowerCase();
        this.#painted();
      },
    });
  }

  #painted() {
    const found = this.labels.filter((label) => String(label).toLowerCase().includes(this.sought));
    const first = found.filter((label) => this.chosen.has(label));
    const others = found.filter((label) => !this.chosen.has(label));
    const many = this.labels.length > MOST_SHOWN;
    const shown = many ? [...first, ...others.slice(0, Math.max(MOST_SHOWN - first.length, 4))] : this.labels;
    const focused = [...this.chips].find(([, chip]) => chip === document.activeElement);
    this.chips = new Map(shown.map((label) => [label, this.#chip(label)]));
    this.list.replaceChildren(
      ...this.chips.values(),
      ...(found.length > shown.length
        ? [html("span", { class: "quiet" }, `and ${found.length - shown.length} more`)]
        : []),
      ...(found.length ? [] : [html("span", { class: "quiet" }, "No label has these letters.")]),
    );
    if (focused) this.chips.get(focused[0])?.focus();
  }

  #chip(label) {
    const share = this.shares.get(label);
    const chip = html(
      "button",
      {
        type: "button",
        class: "chip",
        "aria-pressed": String(this.chosen.has(label)),
        onclick: () => this.#pressed(label),
      },
      html("span", { class: "name" }, nameOf(label)),
      html("small", {}, roughly(share)),
    );
    chip.style.setProperty("--share", `${100 * share}%`);
    return chip;
  }

  /** Allowing every label, or none, says nothing. */
  #pressed(label) {
    if (!this.chosen.delete(label)) this.chosen.add(label);
    if (this.chosen.size === this.labels.length) this.chosen.clear();
    this.#painted();
    const labels = this.column.labels.filter((one) => this.chosen.has(one));
    this.changed(labels.length ? { labels } : null);
  }
}
