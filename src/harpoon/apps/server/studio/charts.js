/**
 * Two small charts: a histogram, and bars of categories. The server has counted both.
 *
 * A series is {name, key, fractions}: before (an area), a and b (lines in the colours of the scenarios).
 */

import { html, svg } from "./dom.js";
import { DAY, clean, isTime, lineOf, roughly, short, stepOf } from "./formats.js";

const WIDTH = 400;
const HEIGHT = 100;
const MAX_BARS = 8;
const LONG_TICK = 9; // letters
const MAX_TICKS = 7; // so many values have a tick each
const DATES_ONLY = 3 * DAY;

/** The chart of a column. */
export function chart(column, series, sentence) {
  return lineOf(column) ? histogram(column, series, sentence) : bars(column, series);
}

function histogram(column, series, sentence) {
  const { edges } = column.before;
  const x = edgePositions(column);
  const top = Math.max(...series.flatMap(({ fractions }) => fractions), 1e-9);
  const drawing = svg("svg", {
    class: "steps",
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    preserveAspectRatio: "none",
    role: "img",
    "aria-label": `${column.name}: ${sentence}`,
  });
  for (const { key, fractions } of series)
    drawing.append(svg("path", { class: `series ${key}`, d: outline(x, fractions, top) }));
  for (let bin = 0; bin + 1 < edges.length; bin += 1) {
    const words = series.map(({ name, fractions }) => `${name} ${roughly(fractions[bin])}`).join(", ");
    const title = svg("title", {}, `${short(edges[bin], column)} to ${short(edges[bin + 1], column)}: ${words}`);
    drawing.append(svg("rect", { class: "touch", x: x[bin], width: x[bin + 1] - x[bin], y: 0, height: HEIGHT }, title));
  }
  const shares = html("p", { class: "y", "aria-hidden": "true" }, html("span", {}, roughly(top)), html("span", {}, "0 %"));
  return html("div", { class: "chart plot" }, shares, drawing, axis(column));
}

/** The positions of the edges of the bins, from left to right. */
export function edgePositions(column, width = WIDTH) {
  const numbers = column.before.edges.map(lineOf(column).count);
  const [low, high] = [numbers[0], numbers.at(-1)];
  return numbers.map((number) => (width * (number - low)) / (high - low || 1));
}

/** The outline of a histogram. */
export function outline(x, fractions, top, height = HEIGHT) {
  const y = (fraction) => (height - 2 - (height - 6) * (fraction / top)).toFixed(2);
  const across = fractions.map((fraction, bin) => `L${x[bin].toFixed(2)} ${y(fraction)}L${x[bin + 1].toFixed(2)} ${y(fraction)}`);
  return `M${x[0]} ${height - 2}${across.join("")}L${x.at(-1)} ${height - 2}`;
}

/** The lower axis: the ends and the middle, or each of few values. The outer bins also hold the values outside of them. */
export function axis(column) {
  const { count, write } = lineOf(column);
  const [first, last] = [column.before.edges[0], column.before.edges.at(-1)].map(count);
  const step = stepOf(column); // bins begin and end between two values of the resolution
  const [low, high] = [Math.max(first + step / 2, count(column.low)), Math.min(last - step / 2, count(column.high))];
  const days = isTime(column) && high - low > DATES_ONLY; // the time of day does not matter then
  const written = (number) => (days ? write(number).slice(0, 10) : short(write(clean(number)), column));
  const steps = step ? Math.round((high - low) / step) : Infinity;
  const middle = step ? low + step * Math.round(steps / 2) : (low + high) / 2;
  const values = steps < MAX_TICKS ? each(low, step, steps, column) : [low, middle, high];
  const texts = values.map(written);
  if (count(column.low) < first) texts[0] = `≤ ${texts[0]}`;
  if (count(column.high) > last) texts[texts.length - 1] = `≥ ${texts.at(-1)}`;
  const wide = texts.some((text) => text.length >= LONG_TICK); // the one in the middle has no room then
  const kept = (i) => texts[i] !== texts[i - 1] && !(wide && i > 0 && i < texts.length - 1);
  const ticks = values.map((value, i) => kept(i) && tick(texts[i], (100 * (value - first)) / (last - first || 1)));
  return html("p", { class: "axis", "aria-hidden": "true" }, ticks);
}

/** The values from `low` on, in steps; of a number with few values, those that it has. */
function each(low, step, steps, { values }) {
  const all = Array.from({ length: steps + 1 }, (_, i) => clean(low + i * step));
  return values ? all.filter((value) => values.includes(value)) : all;
}

function tick(text, at) {
  const node = html("span", {}, text);
  node.style.left = `${at}%`;
  node.style.transform = `translateX(-${at}%)`; // the outer ones stay inside
  return node;
}

/** The most frequent categories, in the order of the column. */
function bars(column, series) {
  const largest = (index) => Math.max(...series.map(({ fractions }) => fractions[index]));
  const order = column.categories.map((_, index) => index).sort((one, other) => largest(other) - largest(one));
  const shown = order.slice(0, MAX_BARS).sort((one, other) => one - other);
  const top = Math.max(largest(order[0]), 1e-9);
  const hidden = order.length - shown.length;
  return html(
    "div",
    { class: "bars" },
    shown.map((index) =>
      bar(
        nameOf(column.categories[index]),
        series.map(({ key, fractions }) => ({ key, fraction: fractions[index] })),
        top,
      ),
    ),
    hidden > 0 && html("p", { class: "quiet" }, `and ${hidden} rarer ones`),
  );
}

function bar(label, values, top) {
  return html(
    "div",
    { class: "bar" },
    html("span", { class: "label", title: label }, label),
    html(
      "span",
      { class: "tracks", "aria-hidden": "true" },
      values.map(({ key, fraction }) => track(key, fraction / top)),
    ),
    html(
      "span",
      { class: "values" },
      values.map(({ key, fraction }) => html("b", { class: `series ${key}` }, roughly(fraction))),
    ),
  );
}

function track(key, part) {
  const filled = html("i", { class: `series ${key}` });
  filled.style.width = `${100 * part}%`;
  return filled;
}

/** A category as text. */
export const nameOf = (category) => (category === "" ? "(empty)" : String(category));
