/** On a phone the answer is below the controls: a bar at the bottom shows the probability and leads there. */

import { html, one, unseen } from "./dom.js";
import { percent } from "./formats.js";
import { isExtrapolation } from "./probability.js";

export class Peek {
  constructor() {
    this.words = [];
    this.below = false; // whether the answer is visible
    this.bar = one("#peek");
    this.bar.addEventListener("click", () => one(this.below ? "#question" : "#answer").scrollIntoView());
    one("#skip").addEventListener("click", () => one("#answer").focus());
    const observer = new IntersectionObserver(
      ([{ isIntersecting, boundingClientRect }]) => {
        this.below = isIntersecting || boundingClientRect.top < 0;
        this.#paint();
      },
      { rootMargin: "0px 0px -40% 0px" },
    );
    observer.observe(one("#answer"));
  }

  /** Show the probabilities, each extrapolation with a mark. */
  show(scenarios, found) {
    this.words = scenarios.flatMap((key, index) => [index ? " · " : "", ...words(key, found[key])]);
    this.#paint();
  }

  #paint() {
    this.bar.replaceChildren(
      ...(this.below ? ["↑ Back to the condition"] : [html("span", {}, ...this.words), "↓ What changes"]),
    );
  }
}

function words(key, answer) {
  const likely = `${key.toUpperCase()} ${answer ? percent(answer.probability) : "…"}`;
  return answer && isExtrapolation(answer) ? [likely, " ", html("span", { "aria-hidden": "true" }, "⚠"), unseen("extrapolation")] : [likely];
}
