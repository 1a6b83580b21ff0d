/** The probability of one scenario, the number of its rows, and the progress of its request. */

import { html } from "./dom.js";
import { count, counted, percent } from "./formats.js";

const FEW_ROWS = 5; // fewer real rows than this are an extrapolation
const HARDLY = "Hardly anything but the model stands behind this answer.";
const STRATEGIES = {
  rejection: "rows that do not satisfy the condition were rejected",
  conditioning: "the columns of the condition were sampled first, the others given them",
  guidance: "rows were guided towards the condition, and reweighted",
  paper: "rows were guided by the paper's algorithm",
};

export class Verdict {
  /** @param on  {stop, again}: what the two buttons do */
  constructor(key, on) {
    this.where = html("code", { class: "where-text" });
    this.number = html("p", { class: "number" });
    this.scale = html("p", { class: "scale", "aria-hidden": "true" }, html("i", {}));
    this.words = html("p", { class: "words" });
    this.support = html("p", { class: "support", role: "status" });
    this.grade = html("p", { class: "graded" });
    this.bar = html("progress", { max: 1, "aria-label": `Rows sampled for scenario ${key.toUpperCase()}` });
    this.counter = html("span", { class: "counter" });
    this.work = html(
      "div",
      { class: "work" },
      this.bar,
      this.counter,
      html("button", { type: "button", class: "stop", onclick: on.stop }, "Stop"),
    );
    this.sentence = html("p", { class: "error", role: "alert" });
    this.again = html("button", { type: "button", class: "again", onclick: on.again }, "Try again");
    this.node = html(
      "article",
      { class: "verdict", id: `verdict-${key}`, "data-scenario": key, "aria-label": `Scenario ${key.toUpperCase()}` },
      html("header", {}, html("b", { class: "badge", "aria-hidden": "true" }, key.toUpperCase()), this.where),
      this.number,
      this.scale,
      this.words,
      this.support,
      this.grade,
      this.work,
      this.sentence,
      this.again,
    );
  }

  /** Show the condition. */
  ask(where) {
    const text = where.trim();
    this.where.textContent = text || "no condition";
    this.where.classList.toggle("none", !text);
  }

  wait() {
    this.#state("waiting");
    this.bar.removeAttribute("value");
    this.counter.textContent = "Waiting";
  }

  /** Show the progress. Under a condition the total is unknown. */
  count({ done, of }) {
    if (of) this.bar.value = done / of;
    this.counter.textContent = of ? `${count(done)} of ${count(of)}` : `${counted(done, "row")} sampled`;
  }

  show({ probability, interval, support, real, agreement, rows, sampling_info: info, question, reason }) {
    this.#state("answered");
    this.node.dataset.where = question.where ?? "";
    this.number.textContent = probability === 0 && rows > 0 ? `< ${percent(interval[1])}` : percent(probability);
    this.scale.firstChild.style.width = `${100 * probability}%`;
    const [free, sampled] = [question.where === null, `${counted(rows, "row")} sampled`];
    const probable = free ? "of rows: there is no condition." : `of sampled rows satisfy it (95 % interval: ${between(interval)}, with the error of ${counted(Math.round(support.effective_rows ?? support.given_rows), support.effective_rows === null ? "training row" : "effective training row")} and of the simulation).`;
    this.words.textContent = `${probable} ${sampled}${free || !rows ? "" : `: ${STRATEGIES[info.strategy]}`}.`;
    this.support.textContent = real ? realText(real) : support ? trainingText(support) : "";
    this.support.classList.toggle("banner", isExtrapolation({ support, real }));
    this.grade.textContent = agreement?.sentence ?? "";
    this.grade.dataset.grade = agreement?.grade ?? "";
    this.sentence.textContent = reason;
    if (support?.is_impossible) this.#impossible(reason);
  }

  /** Show a contradiction: its probability is exactly 0, so there is neither an interval nor a grade. */
  #impossible(reason) {
    this.number.textContent = percent(0);
    this.words.textContent = reason;
    this.support.classList.remove("banner");
    for (const part of [this.support, this.grade, this.sentence]) part.textContent = "";
    this.grade.dataset.grade = "";
  }

  refuse(error) {
    this.#state("refused");
    this.again.hidden = unreadable(error); // the answer would be the same
    this.sentence.textContent = error.message;
  }

  /** Show that the request was stopped. */
  stop() {
    this.#state("stopped");
    this.sentence.textContent = "Stopped. Try again to see this condition.";
  }

  #state(name) {
    this.node.dataset.state = name;
    this.node.setAttribute("aria-busy", String(name === "waiting"));
    delete this.node.dataset.where;
    this.sentence.textContent = "";
    this.work.hidden = name !== "waiting";
    this.again.hidden = !["refused", "stopped"].includes(name);
    this.number.hidden = this.scale.hidden = this.words.hidden = this.support.hidden = this.grade.hidden = name !== "answered";
  }
}

/** Whether an error is about the text of a condition. */
export const unreadable = ({ kind }) => kind === "InvalidCondition";

/** Whether too few rows of a table stand behind an answer; none has to behind a contradiction. */
export function isExtrapolation({ support, real }) {
  if (support?.is_impossible) return false;
  return real ? real.rows < FEW_ROWS : Boolean(support?.is_extrapolation);
}

/** How many rows of the table that the server has satisfy the condition. */
function realText({ rows, of, fraction, interval }) {
  const met = `${count(rows)} of ${counted(of, "real row")}`;
  if (rows < FEW_ROWS) return `Extrapolation: ${met} satisfy it. ${HARDLY}`;
  return `Support: ${met} satisfy it: ${percent(fraction)} (95 % interval: ${between(interval)}).`;
}

/** How many training rows satisfy it: counted, or about, as the model file has it. */
function trainingText({ rows, estimate, exact, is_extrapolation: extrapolation }) {
  const met = `${exact === null ? `about ${count(Math.round(estimate))}` : count(exact)} of ${counted(rows, "training row")} satisfy it.`;
  return extrapolation ? `Extrapolation: ${met} ${HARDLY}` : `Support: ${met}`;
}

function between([low, high]) {
  return `${percent(low)} to ${percent(high)}`;
}
