/** Two buttons that fetch a file, and a third that stops fetching. */

import { html } from "./dom.js";
import { Latest } from "./latest.js";

export class Download {
  /** @param on  {csv, parquet}: each promises a Blob; {name}: what to call the file */
  constructor(place, on) {
    this.on = on;
    this.fetching = new Latest();
    this.buttons = ["csv", "parquet"].map((format) =>
      html(
        "button",
        { type: "button", class: "download", "data-format": format, onclick: () => this.#fetch(format) },
        `Download ${NAMES[format]}`,
      ),
    );
    this.stop = html(
      "button",
      { type: "button", class: "stop", hidden: true, onclick: () => this.#rest("Stopped.") },
      "Stop",
    );
    this.words = html("span", { class: "quiet", role: "status" });
    place.replaceChildren(...this.buttons, this.stop, this.words);
  }

  /** Whether there is something to fetch; what is being fetched for an older question is dropped. */
  allow(there) {
    if (!there) this.#rest("");
    for (const button of this.buttons) button.disabled = !there;
  }

  #fetch(format) {
    this.stop.hidden = false;
    this.words.textContent = "Drawing the file";
    this.fetching.ask(this.on[format], {
      answered: (blob) => {
        save(blob, `${this.on.name()}.${format}`);
        this.#rest("");
      },
      refused: (error) => this.#rest(error.message),
    });
  }

  #rest(words) {
    this.fetching.stop();
    this.stop.hidden = true;
    this.words.textContent = words;
  }
}

const NAMES = { csv: "CSV", parquet: "Parquet" };

function save(blob, name) {
  const link = html("a", { href: URL.createObjectURL(blob), download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(link.href), 60_000);
}
