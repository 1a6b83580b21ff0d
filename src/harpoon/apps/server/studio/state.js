/**
 * The state of the page, kept in its address: the same address shows the same page. A notebook keeps it for its frame.
 *
 * It stands after the #, which a browser never sends, so that no condition gets into a log.
 */

import { address } from "./page_host.js";

const DEFAULTS = { tab: "ask", editing: "a", a: "", b: null, n: 1000, seed: 0, strategy: "auto", missing: "as_trained" };
const CHOICES = {
  strategy: ["auto", "conditioning"], // exact where possible, or fast
  missing: ["as_trained", "complete"], // missing cells as in the table, or filled in
};

export class State extends EventTarget {
  constructor(maxRows) {
    super();
    this.defaults = { ...DEFAULTS, n: Math.min(DEFAULTS.n, maxRows) };
    this.values = this.#read();
    address.onChange(() => this.#adopt(this.#read()));
  }

  /** The scenarios in use: a, or a and b. */
  get scenarios() {
    return this.values.b === null ? ["a"] : ["a", "b"];
  }

  /** Change some values, and the address with them. */
  change(changes) {
    const before = this.values;
    this.values = { ...before, ...changes };
    address.write(this.#written());
    this.#notify(before);
  }

  #adopt(values) {
    const before = this.values;
    this.values = values;
    this.#notify(before);
  }

  #notify(before) {
    const changed = Object.keys(this.values).filter((name) => this.values[name] !== before[name]);
    if (changed.length) this.dispatchEvent(new CustomEvent("change", { detail: new Set(changed) }));
  }

  #read() {
    const given = new URLSearchParams(address.read());
    const values = { ...this.defaults, a: given.get("a") ?? "", b: given.get("b") };
    if (given.get("tab") === "fill") values.tab = "fill";
    if (given.get("editing") === "b" && values.b !== null) values.editing = "b";
    for (const [name, choices] of Object.entries(CHOICES)) {
      if (choices.includes(given.get(name))) values[name] = given.get(name);
    }
    for (const name of ["n", "seed"]) {
      const number = Number(given.get(name) ?? NaN);
      if (Number.isInteger(number) && number >= Number(name === "n")) values[name] = number;
    }
    return values;
  }

  #written() {
    const changed = Object.entries(this.values).filter(([name, value]) => value !== null && value !== this.defaults[name]);
    return String(new URLSearchParams(changed));
  }
}
