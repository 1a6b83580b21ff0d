/** A column on a line: a histogram, a slider with two thumbs under it, and two fields for who knows the number. */

import { axis, outline, places, sharesOf } from "./charts.js";
import { html, put, svg } from "./dom.js";
import { clean, friendly, isTime, lineOf, short, stepOf } from "./formats.js";

const WIDTH = 400;
const HEIGHT = 56;
const DUST = 1e-6; // of a step

export class RangeControl {
  /**
   * @param column   as /schema tells it
   * @param changed  called with {low, high}, or null where the column is free
   */
  constructor(column, changed) {
    this.column = column;
    this.changed = changed;
    this.line = lineOf(column);
    const edges = column.before.edges.map(this.line.count);
    [this.least, this.most] = [this.line.count(column.low), this.line.count(column.high)];
    [this.from, this.to] = [edges[0], edges.at(-1)];
    this.step = friendly(this.to - this.from || 1, column);
    this.low = this.high = null; // no bound
    this.open = {}; // the sides whose bound itself is not allowed, which only text can ask for
    this.node = this.#built();
    this.show(null);
  }

  /** Show a range, or that there is none. */
  show(range) {
    this.low = range?.low == null ? null : this.line.count(range.low);
    this.high = range?.high == null ? null : this.line.count(range.high);
    this.open = { low: range?.low_open, high: range?.high_open };
    this.#painted();
  }

  #built() {
    this.thumbs = ["low", "high"].map((side) =>
      html("input", {
        type: "range",
        min: 0,
        max: this.#places,
        step: 1,
        "aria-label": `${this.column.name}, ${WORDS[side]}`,
        oninput: (event) => this.#slid(side, Number(event.target.value)),
      }),
    );
    this.fields = ["low", "high"].map((side) =>
      html("input", {
        type: this.line.input,
        step: this.#fieldStep(),
        "aria-label": `${this.column.name}, ${WORDS[side]}, as a value`,
        placeholder: short(this.column[side], this.column),
        onchange: (event) => this.#typed(side, event.target.value),
      }),
    );
    this.chosen = html("i", { class: "chosen" });
    const [low, high] = this.fields;
    return html(
      "div",
      { class: "range" },
      this.#histogram(),
      html("div", { class: "slider" }, html("i", { class: "track" }), this.chosen, this.thumbs),
      axis(this.column),
      html(
        "div",
        { class: "fields" },
        html("label", {}, "from", low),
        html("label", {}, "to", high),
        this.column.kind === "duration" && html("span", { class: "quiet" }, this.column.unit),
      ),
    );
  }

  #histogram() {
    const x = places(this.column, WIDTH);
    const shares = sharesOf(this.column.before);
    const d = outline(x, shares, Math.max(...shares, 1e-9), HEIGHT);
    const clip = `clip-${RangeControl.#made++}`;
    this.window = svg("rect", { y: 0, height: HEIGHT });
    return svg(
      "svg",
      { class: "steps small", viewBox: `0 0 ${WIDTH} ${HEIGHT}`, preserveAspectRatio: "none", "aria-hidden": "true" },
      svg("clipPath", { id: clip }, this.window),
      svg("path", { class: "series before", d }),
      svg("path", { class: "series inside", d, "clip-path": `url(#${clip})` }),
    );
  }

  static #made = 0;

  get #places() {
    return Math.max(Math.ceil((this.to - this.from) / this.step - 1e-9), 1);
  }

  #fieldStep() {
    if (this.column.kind === "date") return 1; // day
    const step = stepOf(this.column);
    return isTime(this.column) ? Math.max(1, step / 1000) : step || "any";
  }

  /** A thumb at its own end says nothing about the column. */
  #slid(side, place) {
    const places = this.#places;
    const other = this.#place(side === "low" ? "high" : "low");
    const held = side === "low" ? Math.min(place, other) : Math.max(place, other);
    const open = side === "low" ? held === 0 : held === places;
    this[side] = open ? null : this.#friendly(side, this.from + held * this.step);
    this.#told(side);
  }

  #typed(side, text) {
    const number = text === "" ? null : this.line.count(text);
    this[side] = Number.isNaN(number) ? null : number;
    this.#told(side);
  }

  /** The friendly number next to a place, inwards: bins of whole numbers begin between two of them. */
  #friendly(side, number) {
    const steps = number / this.step;
    const snapped = this.step * (side === "low" ? Math.ceil(steps - DUST) : Math.floor(steps + DUST));
    return clean(Math.min(Math.max(snapped, this.least), this.most));
  }

  /** The place of a bound, outwards, so that it is the one that it was chosen at. */
  #place(side) {
    const places = this.#places;
    if (this[side] === null) return side === "low" ? 0 : places;
    const steps = (this[side] - this.from) / this.step;
    return Math.min(Math.max(side === "low" ? Math.floor(steps + DUST) : Math.ceil(steps - DUST), 0), places);
  }

  #told(side) {
    this.open[side] = false;
    this.#painted();
    const range = { low: this.#written(this.low), high: this.#written(this.high) };
    for (const one of ["low", "high"]) if (this.open[one]) range[`${one}_open`] = true;
    this.changed(range.low === null && range.high === null ? null : range);
  }

  #written(number) {
    return number === null ? null : this.line.write(number);
  }

  #painted() {
    const places = this.#places;
    const [low, high] = ["low", "high"].map((side) => this.#place(side));
    ["low", "high"].forEach((side, i) => {
      const value = this.#written(this[side]);
      this.thumbs[i].value = this.#place(side);
      this.thumbs[i].setAttribute("aria-valuetext", value === null ? "no bound" : short(value, this.column));
      put(this.fields[i], value ?? "");
    });
    this.thumbs[0].classList.toggle("above", low > places / 2); // both at the right end: the left one must move
    this.chosen.style.left = `${(100 * low) / places}%`;
    this.chosen.style.right = `${100 - (100 * high) / places}%`;
    this.window.setAttribute("x", (WIDTH * low) / places);
    this.window.setAttribute("width", (WIDTH * Math.max(high - low, 0)) / places);
    this.node.classList.toggle("set", this.low !== null || this.high !== null);
  }
}

/** The friendly value next to the point above which a quarter of the rows lies. */
export function upperQuarter(column) {
  const { count, write } = lineOf(column);
  const edges = column.before.edges.map(count);
  let left = 0.25;
  const bin = sharesOf(column.before).findLastIndex((share) => (left -= share) < 0);
  const step = friendly(20 * (edges.at(-1) - edges[0]), column); // a round number is enough
  return write(clean(Math.min(Math.round(edges[Math.max(bin, 1)] / step) * step, count(column.high))));
}

const WORDS = { low: "at least", high: "at most" };
