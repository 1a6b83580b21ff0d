/** On a phone the answer lies below the controls: a bar at the foot tells how likely it is, and leads there. */

import { html, one } from "./dom.js";
import { percent } from "./formats.js";

export class Peek {
  constructor() {
    this.words = "";
    this.below = false; // whether the answer is what is seen
    this.bar = one("#peek");
    this.bar.addEventListener("click", () => one(this.below ? "#question" : "#answer").scrollIntoView());
    one("#skip").addEventListener("click", () => one("#answer").focus());
    const watch = new IntersectionObserver(
      ([{ isIntersecting, boundingClientRect }]) => {
        this.below = isIntersecting || boundingClientRect.top < 0;
        this.#painted();
      },
      { rootMargin: "0px 0px -40% 0px" },
    );
    watch.observe(one("#answer"));
  }

  /** Tell the answers that are there. */
  show(scenarios, found) {
    const likely = (key) => (found[key] ? percent(found[key].probability) : "…");
    this.words = scenarios.map((key) => `${key.toUpperCase()} ${likely(key)}`).join(" · ");
    this.#painted();
  }

  #painted() {
    this.bar.replaceChildren(
      ...(this.below ? ["↑ Back to the condition"] : [html("span", {}, this.words), "↓ What changes"]),
    );
  }
}
