/** Values as text, and times as the numbers that a slider needs. */

export const DAY = 86_400_000; // milliseconds
const CLOCK = [1, 60, 300, 900, 3600, 21_600, 86_400].map((seconds) => 1000 * seconds);
const whole = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });
const plain = new Intl.NumberFormat("en", { maximumFractionDigits: 0, useGrouping: "min2" }); // a year has no comma
const rounded = new Intl.NumberFormat("en", { maximumSignificantDigits: 4, useGrouping: "min2" });
const [TINY, HUGE] = [1e-4, 1e12]; // outside of this range numbers have an exponent

const TICKS = { s: 1, ms: 1e3, us: 1e6, ns: 1e9 };
const SPANS = [
  ["d", 86_400],
  ["h", 3600],
  ["min", 60],
  ["s", 1],
];

/** For each numeric or temporal kind: value to number, number to value, and the type of its input field. */
const LINES = {
  number: { count: Number, write: (x) => x, input: "number" },
  integer: { count: Number, write: (x) => Math.round(x), input: "number" },
  duration: { count: Number, write: (x) => Math.round(x), input: "number" },
  date: { count: Date.parse, write: (x) => iso(x).slice(0, 10), input: "date" },
  datetime: { count: (text) => Date.parse(zoned(text) ? text : `${text}Z`), write: iso, input: "datetime-local" },
};

/** The entry of a column in LINES; undefined for categories, which numbers with two values are, too. */
export const lineOf = (column) => (column.categories ? undefined : LINES[column.kind]);

/** The resolution of a column: milliseconds for dates and times. */
export function stepOf(column) {
  if (column.kind === "date") return DAY * column.step;
  return column.kind === "datetime" ? (1000 * column.step) / TICKS[column.unit] : (column.step ?? 0);
}

export const isTime = (column) => column.kind.startsWith("date");

/** A count of things. */
export const count = (number) => whole.format(number);

/** "1 row", "2,000 rows". */
export const counted = (number, word) => `${count(number)} ${word}${number === 1 ? "" : "s"}`;

/** "a, b and c"; of many names, the first ones. */
export function listed(names, most = 12) {
  const shown = names.length > most ? [...names.slice(0, most), `${names.length - most} more`] : names;
  return new Intl.ListFormat("en-GB").format(shown);
}

/** A fraction as percent; a positive one is never shown as zero. */
export function percent(fraction) {
  const value = 100 * fraction;
  if (value > 0 && value < 0.01) return "< 0.01 %";
  return `${value.toFixed(value < 1 ? 2 : value < 99.95 && value > 0 ? 1 : 0)} %`.replace(/^0\.00 /, "0 ");
}

/** A fraction as whole percent. */
export const roughly = (fraction) => (fraction > 0 && fraction < 0.005 ? "< 1 %" : `${Math.round(100 * fraction)} %`);

/** A value of a cell, in full. */
export function cell(value, column) {
  if (value === null || value === undefined) return "";
  if (typeof value === "number" && column?.kind === "duration") return span(value, column);
  if (typeof value === "number") return String(clean(value));
  return typeof value === "string" && column?.kind === "datetime" ? value.replace("T", " ") : String(value);
}

/** A value in short, for an axis or a slider. */
export function short(value, column) {
  if (value === null || value === undefined) return "";
  if (column.kind === "duration") return span(value, column);
  if (typeof value === "string") return value.slice(0, 16).replace("T", " ");
  const size = Math.abs(value);
  if (size >= HUGE || (size > 0 && size < TINY)) return value.toExponential(2);
  return Number.isInteger(value) && size < 1e6 ? plain.format(value) : rounded.format(value);
}

/** A duration, from the ticks of its column. */
function span(ticks, column) {
  const seconds = ticks / TICKS[column.unit];
  const [name, size] = SPANS.find(([, size]) => Math.abs(seconds) >= size) ?? SPANS.at(-1);
  return `${rounded.format(seconds / size)} ${name}`;
}

/** A round step (1, 2 or 5 times a power of ten, or a unit of time) with a few hundred positions on a slider. */
export function roundStep(span, column) {
  const finest = Math.max(stepOf(column), span / 400) * (1 - 1e-9);
  if (isTime(column)) return CLOCK.find((step) => step >= finest) ?? Math.ceil(finest / DAY) * DAY;
  const power = 10 ** Math.floor(Math.log10(finest));
  return clean([1, 2, 5, 10].map((times) => times * power).find((step) => step >= finest));
}

/** A number without binary rounding errors. */
export const clean = (number) => Number(number.toPrecision(12));

function iso(milliseconds) {
  return new Date(milliseconds).toISOString().slice(0, 19);
}

function zoned(text) {
  return /(Z|[+-]\d\d:\d\d)$/.test(text);
}
