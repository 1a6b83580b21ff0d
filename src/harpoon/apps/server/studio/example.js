/** A table with holes, for those who have none at hand: rows that the model draws, and cells that are left out. */

import { sample } from "./api.js";

const ROWS = 40;
const EVERY = 7; // cells, of which one is left out

/** The table, as a file. */
export async function example(schema, signal) {
  const { rows } = await sample({ n: ROWS, seed: 1 }, signal);
  const names = schema.columns.map(({ name }) => name).filter((name) => name in rows[0]);
  const hidden = (row, place) => (3 * row + 5 * place) % EVERY === 0;
  const lines = rows.map((cells, row) => names.map((name, place) => (hidden(row, place) ? "" : written(cells[name]))));
  const text = [names.map(written), ...lines].map((line) => line.join(",")).join("\n");
  return new File([`${text}\n`], "example.csv", { type: "text/csv" });
}

const written = (cell) => (/[",\n\r]|^$/.test(String(cell)) ? `"${String(cell).replaceAll('"', '""')}"` : String(cell));
