/** An example table with missing cells: rows that the model samples, without every seventh cell. */

import { sample } from "./api.js";

const ROWS = 40;
const EVERY = 7; // cells, one of which is removed

/** Return the table as a file. */
export async function example(schema, signal) {
  const { rows } = await sample({ n: ROWS, seed: 1 }, signal);
  const names = schema.columns.map(({ name }) => name).filter((name) => name in rows[0]);
  const hidden = (row, column) => (3 * row + 5 * column) % EVERY === 0;
  const lines = rows.map((cells, row) => names.map((name, column) => (hidden(row, column) ? "" : written(cells[name]))));
  const text = [names.map(written), ...lines].map((line) => line.join(",")).join("\n");
  return new File([`${text}\n`], "example.csv", { type: "text/csv" });
}

const written = (cell) => (/[",\n\r]|^$/.test(String(cell)) ? `"${String(cell).replaceAll('"', '""')}"` : String(cell));
