/**
 * Two small charts, drawn by hand: steps over a line, and bars of labels.
 *
 * A series is {name, key, shares}: before (an area), a and b (lines in the colours of the scenarios).
 */

import { html, svg } from "./dom.js";
import { DAY, clean, isTime, lineOf, roughly, short, stepOf } from "./formats.js";

const WIDTH = 400;
const HEIGHT = 100;
const MOST_BARS = 8;
const FEW_DAYS = 3 * DAY;

/** The shares of a column in one table: of bins, or of labels. */
export function sharesOf(picture) {
  if (picture.shares) return picture.shares;
  const total = picture.counts.reduce((sum, count) => sum + count, 0) || 1;
  return picture.counts.map((count) => count / total);
}

/** A column in several tables. */
export function chart(column, series, sentence) {
  return lineOf(column) ? steps(column, series, sentence) : bars(column, series);
}

function steps(column, series, sentence) {
  const { edges } = column.before;
  const x = places(column);
  const top = Math.max(...series.flatMap(({ shares }) => shares), 1e-9);
  const drawing = svg("svg", {
    class: "steps",
    viewBox: `0 0 ${WIDTH} ${HEIGHT}`,
    preserveAspectRatio: "none",
    role: "img",
    "aria-label": `${column.name}: ${sentence}`,
  });
  for (const { key, shares } of series)
    drawing.append(svg("path", { class: `series ${key}`, d: outline(x, shares, top) }));
  for (let bin = 0; bin + 1 < edges.length; bin += 1) {
    const words = series.map(({ name, shares }) => `${name} ${roughly(shares[bin])}`).join(", ");
    const title = svg("title", {}, `${short(edges[bin], column)} to ${short(edges[bin + 1], column)}: ${words}`);
    drawing.append(svg("rect", { class: "touch", x: x[bin], width: x[bin + 1] - x[bin], y: 0, height: HEIGHT }, title));
  }
  return html("div", { class: "chart" }, drawing, axis(column));
}

/** Where the edges of the bins are, from left to right. */
export function places(column, width = WIDTH) {
  const numbers = column.before.edges.map(lineOf(column).count);
  const [low, high] = [numbers[0], numbers.at(-1)];
  return numbers.map((number) => (width * (number - low)) / (high - low || 1));
}

/** A skyline: up at the left of each bin, across, and down at its right. */
export function outline(x, shares, top, height = HEIGHT) {
  const y = (share) => (height - 2 - (height - 6) * (share / top)).toFixed(2);
  const across = shares.map((share, bin) => `L${x[bin].toFixed(2)} ${y(share)}L${x[bin + 1].toFixed(2)} ${y(share)}`);
  return `M${x[0]} ${height - 2}${across.join("")}L${x.at(-1)} ${height - 2}`;
}

/** The ends and the middle of a column's line; the outer bins also hold what lies beyond them. */
export function axis(column) {
  const { count, write } = lineOf(column);
  const [first, last] = [column.before.edges[0], column.before.edges.at(-1)].map(count);
  const half = stepOf(column) / 2; // on a grid, bins begin and end between two values
  const [low, high] = [Math.max(first + half, count(column.low)), Math.min(last - half, count(column.high))];
  const days = isTime(column) && high - low > FEW_DAYS; // then the time of the day is no news
  const written = (number) => (days ? write(number).slice(0, 10) : short(write(clean(number)), column));
  const texts = [low, onGrid((low + high) / 2, 2 * half), high].map(written);
  if (count(column.low) < first) texts[0] = `≤ ${texts[0]}`;
  if (count(column.high) > last) texts[2] = `≥ ${texts[2]}`;
  return html(
    "p",
    { class: "axis", "aria-hidden": "true" },
    texts.map((text) => html("span", {}, text)),
  );
}

const onGrid = (number, step) => (step ? Math.round(number / step) * step : number);

/** The labels with the largest shares, in the order that the column has them. */
function bars(column, series) {
  const most = (place) => Math.max(...series.map(({ shares }) => shares[place]));
  const order = column.labels.map((_, place) => place).sort((one, other) => most(other) - most(one));
  const shown = order.slice(0, MOST_BARS).sort((one, other) => one - other);
  const top = Math.max(most(order[0]), 1e-9);
  const hidden = order.length - shown.length;
  return html(
    "div",
    { class: "bars" },
    shown.map((place) =>
      bar(
        nameOf(column.labels[place]),
        series.map(({ key, shares }) => ({ key, share: shares[place] })),
        top,
      ),
    ),
    hidden > 0 && html("p", { class: "quiet" }, `and ${hidden} more with smaller shares`),
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
      values.map(({ key, share }) => track(key, share / top)),
    ),
    html(
      "span",
      { class: "values" },
      values.map(({ key, share }) => html("b", { class: `series ${key}` }, roughly(share))),
    ),
  );
}

function track(key, part) {
  const filled = html("i", { class: `series ${key}` });
  filled.style.width = `${100 * part}%`;
  return filled;
}

/** A label as text. */
export const nameOf = (label) => (label === "" ? "(empty)" : String(label));
