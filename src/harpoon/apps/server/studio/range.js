/** The control of a numeric or temporal column: a histogram, a slider with two thumbs, and two input fields. */

import { axis, edgePositions, outline } from "./charts.js";
import { html, put, svg } from "./dom.js";
import { clean, isTime, lineOf, roundStep, short, stepOf } from "./formats.js";

const WIDTH = 400;
const HEIGHT = 56;
const TOLERANCE = 1e-6; // of a step

export class RangeControl {
  /**
   * @param column   from /schema
   * @param changed  called with {low, high}, or null for no condition
   */
  constructor(column, changed) {
    this.column = column;
    this.changed = changed;
    this.line = lineOf(column);
    const edges = column.before.edges.map(this.line.count);
    [this.min, this.max] = [this.line.count(column.low), this.line.count(column.high)];
    [this.from, this.to] = [edges[0], edges.at(-1)];
    this.step = roundStep(this.to - this.from || 1, column);
    this.low = this.high = null; // no bound
    this.open = {}; // the sides whose end is excluded, which only text can set
    this.node = this.#build();
    this.show(null);
  }

  /** Show a range, or none. */
  show(range) {
    this.low = range?.low == null ? null : this.line.count(range.low);
    this.high = range?.high == null ? null : this.line.count(range.high);
    this.open = { low: range?.low_open, high: range?.high_open };
    this.#paint();
  }

  #build() {
    this.thumbs = ["low", "high"].map((side) =>
      html("input", {
        type: "range",
        min: 0,
        max: this.#positions,
        step: 1,
        "aria-label": `${this.column.name}, ${WORDS[side]}`,
        oninput: (event) => this.#slide(side, Number(event.target.value)),
      }),
    );
    this.fields = ["low", "high"].map((side) =>
      html("input", {
        type: this.line.input,
        step: this.#fieldStep(),
        "aria-label": `${this.column.name}, ${WORDS[side]}, as a value`,
        placeholder: short(this.column[side], this.column),
        onchange: (event) => this.#type(side, event.target.value),
      }),
    );
    this.chosen = html("i", { class: "chosen" });
    this.words = ["low", "high"].map((side) => html("span", {}, CLOSED[side]));
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
        html("label", {}, this.words[0], low),
        html("label", {}, this.words[1], high),
        this.column.kind === "duration" && html("span", { class: "quiet" }, this.column.unit),
      ),
    );
  }

  #histogram() {
    const x = edgePositions(this.column, WIDTH);
    const { fractions } = this.column.before;
    const d = outline(x, fractions, Math.max(...fractions, 1e-9), HEIGHT);
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

  get #positions() {
    return Math.max(Math.ceil((this.to - this.from) / this.step - 1e-9), 1);
  }

  #fieldStep() {
    if (this.column.kind === "date") return 1; // day
    const step = stepOf(this.column);
    return isTime(this.column) ? Math.max(1, step / 1000) : step || "any";
  }

  /** A thumb at its end is no condition. */
  #slide(side, position) {
    const positions = this.#positions;
    const other = this.#position(side === "low" ? "high" : "low");
    const held = side === "low" ? Math.min(position, other) : Math.max(position, other);
    const open = side === "low" ? held === 0 : held === positions;
    this[side] = open ? null : this.#toRound(side, this.from + held * this.step);
    this.#notify(side);
  }

  #type(side, text) {
    const number = text === "" ? null : this.line.count(text);
    this[side] = Number.isNaN(number) ? null : number;
    this.#notify(side);
  }

  /** The next round number inwards: bins of integers begin between two of them. */
  #toRound(side, number) {
    const steps = number / this.step;
    const snapped = this.step * (side === "low" ? Math.ceil(steps - TOLERANCE) : Math.floor(steps + TOLERANCE));
    return clean(Math.min(Math.max(snapped, this.min), this.max));
  }

  /** The position of a bound, outwards, so that it is the one where it was chosen. */
  #position(side) {
    const positions = this.#positions;
    if (this[side] === null) return side === "low" ? 0 : positions;
    const steps = (this[side] - this.from) / this.step;
    return Math.min(Math.max(side === "low" ? Math.floor(steps + TOLERANCE) : Math.ceil(steps - TOLERANCE), 0), positions);
  }

  #notify(side) {
    this.open[side] = false;
    this.#paint();
    const range = { low: this.#toValue(this.low), high: this.#toValue(this.high) };
    for (const one of ["low", "high"]) if (this.open[one]) range[`${one}_open`] = true;
    this.changed(range.low === null && range.high === null ? null : range);
  }

  #toValue(number) {
    return number === null ? null : this.line.write(number);
  }

  #paint() {
    const positions = this.#positions;
    const [low, high] = ["low", "high"].map((side) => this.#position(side));
    ["low", "high"].forEach((side, i) => {
      const value = this.#toValue(this[side]);
      this.thumbs[i].value = this.#position(side);
      const excluded = value !== null && this.open[side];
      this.words[i].textContent = (excluded ? OPEN : CLOSED)[side];
      const text = value === null ? "no bound" : short(value, this.column);
      this.thumbs[i].setAttribute("aria-valuetext", excluded ? `${OPEN[side]} ${text}` : text);
      put(this.fields[i], value ?? "");
    });
    this.thumbs[0].classList.toggle("above", low > positions / 2); // both at the right end: the left one must move
    this.chosen.style.left = `${(100 * low) / positions}%`;
    this.chosen.style.right = `${100 - (100 * high) / positions}%`;
    this.window.setAttribute("x", (WIDTH * low) / positions);
    this.window.setAttribute("width", (WIDTH * Math.max(high - low, 0)) / positions);
    this.node.classList.toggle("set", this.low !== null || this.high !== null);
  }
}

/** A round value near the upper quartile. */
export function upperQuarter(column) {
  const { count, write } = lineOf(column);
  const edges = column.before.edges.map(count);
  let left = 0.25;
  const bin = column.before.fractions.findLastIndex((fraction) => (left -= fraction) < 0);
  const step = roundStep(20 * (edges.at(-1) - edges[0]), column); // a round number is enough
  return write(clean(Math.min(Math.round(edges[Math.max(bin, 1)] / step) * step, count(column.high))));
}

const WORDS = { low: "at least", high: "at most" };
const CLOSED = { low: "from", high: "to" }; // the words beside a field
const OPEN = { low: "above", high: "below" }; // of an end that is excluded
