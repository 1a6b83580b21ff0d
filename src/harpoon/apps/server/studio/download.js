/** Two buttons that download a file, and one that stops the download. */

import { html } from "./dom.js";
import { Latest } from "./latest_request.js";

export class Download {
  /** @param on  {csv, parquet}: each returns a promise of a Blob; {name}: returns the name of the file */
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
      { type: "button", class: "stop", hidden: true, onclick: () => this.#stop("Stopped.") },
      "Stop",
    );
    this.words = html("span", { class: "quiet", role: "status" });
    place.replaceChildren(...this.buttons, this.stop, this.words);
  }

  /** Enable or disable the buttons; a download of an older answer is stopped. */
  enable(available) {
    if (!available) this.#stop("");
    for (const button of this.buttons) button.disabled = !available;
  }

  #fetch(format) {
    this.stop.hidden = false;
    this.words.textContent = "Preparing the file";
    this.fetching.ask(this.on[format], {
      answered: (blob) => {
        save(blob, `${this.on.name()}.${format}`);
        this.#stop("");
      },
      refused: (error) => this.#stop(error.message),
    });
  }

  #stop(words) {
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
