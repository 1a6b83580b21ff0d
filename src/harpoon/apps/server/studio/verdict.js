/** How likely one scenario is, how many rows were drawn for it, and what is going on meanwhile. */

import { html } from "./dom.js";
import { count, counted, percent } from "./formats.js";

const HOW = {
  kept: "plain rows were drawn, and those that meet it kept",
  known: "the columns of the condition were drawn first, the rest of each row knowing them",
  guided: "rows were pulled towards the condition, and weighted to undo the bend",
  paper: "rows were pulled by the paper's algorithm",
};

export class Verdict {
  /** @param on  {stop, again}: what the two buttons do */
  constructor(key, on) {
    this.where = html("code", { class: "asked-for" });
    this.number = html("p", { class: "number" });
    this.scale = html("p", { class: "scale", "aria-hidden": "true" }, html("i", {}));
    this.words = html("p", { class: "words" });
    this.bar = html("progress", { max: 1, "aria-label": `Rows drawn for scenario ${key.toUpperCase()}` });
    this.counter = html("span", { class: "counter" });
    this.work = html(
      "div",
      { class: "work" },
      this.bar,
      this.counter,
      html("button", { type: "button", class: "stop", onclick: on.stop }, "Stop"),
    );
    this.sentence = html("p", { class: "error", role: "alert" });
    this.again = html("button", { type: "button", class: "again", onclick: on.again }, "Ask again");
    this.node = html(
      "article",
      { class: "verdict", id: `verdict-${key}`, "data-scenario": key, "aria-label": `Scenario ${key.toUpperCase()}` },
      html("header", {}, html("b", { class: "badge", "aria-hidden": "true" }, key.toUpperCase()), this.where),
      this.number,
      this.scale,
      this.words,
      this.work,
      this.sentence,
      this.again,
    );
  }

  /** The question, as it stands in the text. */
  ask(where) {
    const text = where.trim();
    this.where.textContent = text || "every row: no condition";
    this.where.classList.toggle("none", !text);
  }

  wait() {
    this.#state("waiting");
    this.bar.removeAttribute("value");
    this.counter.textContent = "Asking";
  }

  /** Under a condition nobody knows how many rows it takes: then there is no end to count to. */
  count({ done, of }) {
    if (of) this.bar.value = done / of;
    this.counter.textContent = of ? `${count(done)} of ${count(of)}` : `${counted(done, "row")} tried`;
  }

  tell({ probability, interval, rows, report, question, reason }) {
    this.#state("answered");
    this.node.dataset.where = question.where ?? "";
    this.number.textContent = probability === 0 && rows > 0 ? `< ${percent(interval[1])}` : percent(probability);
    this.scale.firstChild.style.width = `${100 * probability}%`;
    const [free, drawn] = [question.where === null, `${counted(rows, "row")} drawn`];
    const met = free ? "of rows: nothing is asked of them." : `of rows meet it${between(interval)}.`;
    this.words.textContent = `${met} ${drawn}${free || !rows ? "" : `: ${HOW[report.strategy]}`}.`;
    this.sentence.textContent = reason;
  }

  refuse(error) {
    this.#state("refused");
    this.again.hidden = unreadable(error); // the answer would be the same
    this.sentence.textContent = error.message;
  }

  /** Stopped by the reader. */
  rest() {
    this.#state("stopped");
    this.sentence.textContent = "Stopped. Nothing is shown for this condition until you ask again.";
  }

  #state(name) {
    this.node.dataset.state = name;
    this.node.setAttribute("aria-busy", String(name === "waiting"));
    delete this.node.dataset.where;
    this.sentence.textContent = "";
    this.work.hidden = name !== "waiting";
    this.again.hidden = !["refused", "stopped"].includes(name);
    this.number.hidden = this.scale.hidden = this.words.hidden = name !== "answered";
  }
}

/** Whether a refusal is about the text of a condition, and not about its answer. */
export const unreadable = ({ kind }) => kind === "InvalidCondition";

function between([low, high]) {
  return ` (between ${percent(low)} and ${percent(high)}, with 95 % confidence)`;
}
