/** The right side: the answer to each scenario. An answer is shown only beside its own question. */

import { feasibility, profile } from "./api.js";
import { showChanges } from "./changes.js";
import { showCode } from "./code.js";
import { one, put } from "./dom.js";
import { Latest } from "./latest_request.js";
import { Peek } from "./mobile_bar.js";
import { RowsView } from "./rows.js";
import { Verdict, unreadable } from "./probability.js";

const PAUSE = 120;
const SHOWN_ROWS = 100;
const CHOICES = ["strategy", "missing"]; // each has a list of options

export class Answer {
  constructor(state, schema) {
    this.state = state;
    this.schema = schema;
    this.rows = new RowsView(state, schema);
    this.peek = new Peek();
    this.asking = { a: new Latest(), b: new Latest() };
    this.found = { a: null, b: null }; // the answers, each with its question
    this.unread = { a: false, b: false }; // whether the condition cannot be read
    this.verdicts = { a: this.#verdict("a"), b: this.#verdict("b") };
    one("#verdicts").replaceChildren(this.verdicts.a.node, this.verdicts.b.node);
    this.#settings();
    state.addEventListener("change", ({ detail }) => this.#follow(detail));
    state.addEventListener("pending", ({ detail }) => this.#pending(detail));
    for (const key of state.scenarios) this.#ask(key);
    this.#show();
  }

  #verdict(key) {
    return new Verdict(key, { stop: () => this.#stopped(key), again: () => this.#ask(key) });
  }

  #settings() {
    one("#rows").max = this.schema.limits.rows;
    for (const [id, name] of Object.entries({ rows: "n", seed: "seed" })) {
      const field = one(`#${id}`);
      const take = () => field.reportValidity() && this.state.change({ [name]: field.valueAsNumber });
      field.addEventListener("change", take);
    }
    for (const name of CHOICES) {
      one(`#${name}`).addEventListener("change", ({ target }) => this.state.change({ [name]: target.value }));
    }
    one("#missing-choice").hidden = !this.schema.columns.some(({ nullable }) => nullable);
    one("#calibration").textContent = this.schema.calibration.sentence;
    one("#calibration").dataset.grade = this.schema.calibration.grade;
    one("#reseed").addEventListener("click", () => this.state.change({ seed: this.state.values.seed + 1 }));
  }

  #follow(changed) {
    const all = ["n", "seed", ...CHOICES].some((name) => changed.has(name));
    for (const key of ["a", "b"]) {
      if (!this.state.scenarios.includes(key)) this.#forget(key);
      else if (all || changed.has(key)) this.#ask(key);
    }
    this.#show();
  }

  /** Ask all questions again: the server knows more. */
  refresh() {
    for (const key of this.state.scenarios) this.#ask(key);
  }

  #forget(key) {
    this.asking[key].stop();
    this.found[key] = null;
  }

  #pending(key) {
    this.#forget(key);
    this.verdicts[key].wait();
    this.#show();
  }

  #ask(key) {
    const question = questionOf(this.state.values, key);
    this.#pending(key);
    const progress = (done) => this.verdicts[key].count(done);
    this.asking[key].ask((signal) => explained(question, { signal, progress }), {
      pause: PAUSE,
      answered: (answer) => {
        this.found[key] = answer;
        this.unread[key] = false;
        this.verdicts[key].show(this.found[key]);
        this.#show();
      },
      refused: (error) => {
        this.unread[key] = unreadable(error);
        this.verdicts[key].refuse(error);
        this.#show();
      },
    });
  }

  #stopped(key) {
    this.#forget(key);
    this.verdicts[key].stop();
    this.#show();
  }

  #show() {
    const { values, scenarios } = this.state;
    put(one("#rows"), values.n);
    put(one("#seed"), values.seed);
    for (const name of CHOICES) one(`#${name}`).value = values[name];
    one("#answer").classList.toggle("two", scenarios.length > 1);
    this.verdicts.b.node.hidden = scenarios.length < 2;
    for (const key of scenarios) this.verdicts[key].ask(values[key]);
    const shown = scenarios.filter((key) => !this.unread[key] && !hasNoRows(this.found[key]));
    showChanges(this.schema, shown, this.found, values);
    this.rows.show(this.found);
    this.peek.show(scenarios, this.found);
    showCode(this.schema, shown, values);
    this.#hideWithoutRows(scenarios.map((key) => this.found[key]));
  }

  /** Without a row there is nothing to compare, download or reproduce: the reason stands alone. */
  #hideWithoutRows(answers) {
    const without = answers.every(hasNoRows);
    for (const part of ["changes-part", "rows-part", "calibration"]) one(`#${part}`).hidden = without;
    one("#settings").hidden = answers.every((answer) => answer?.support?.is_impossible); // no other rows could be sampled
  }
}

/** Whether an answer is there, and has no rows. */
const hasNoRows = (answer) => answer?.rows === 0;

/** The request for a scenario. Without a condition there is no strategy. */
function questionOf(values, key) {
  const { n, seed, strategy, missing } = values;
  const where = values[key].trim();
  return where ? { where, n, seed, strategy, missing } : { where: null, n, seed, missing };
}

/** The answer to a question; if there are too few rows, with the reason. */
async function explained(question, { signal, progress }) {
  const answer = await profile({ ...question, show: SHOWN_ROWS }, { signal, progress });
  if (answer.rows === question.n) return { ...answer, question, reason: "" };
  const { suggestion } = await feasibility({ where: question.where, seed: question.seed }, signal);
  return { ...answer, question, reason: suggestion }; // its message would repeat the probability, from other rows
}
