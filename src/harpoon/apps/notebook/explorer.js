/** Studio in a cell of a notebook: a frame with its page. The kernel answers the requests of the page by messages. */

export default { render };

function render({ model, el }) {
  const kernel = new Kernel(model);
  const frame = document.createElement("iframe");
  frame.title = "Harpoon Studio";
  frame.style.cssText = `display: block; width: 100%; height: ${model.get("_height")}px; border: 0; border-radius: 8px`;
  const onAddress = [];
  const notify = () => onAddress.forEach((changed) => changed());
  const themes = new Themes();
  frame.harpoon = {
    fetch: (path, options) => kernel.fetch(path, options),
    address: {
      read: () => model.get("_address"),
      write: (text) => {
        model.set("_address", text);
        model.save_changes();
      },
      onChange: (changed) => onAddress.splice(0, onAddress.length, changed), // a notebook may load the frame again
    },
    onTheme: (apply) => themes.follow(apply),
  };
  model.on("change:_address", notify);
  frame.srcdoc = model.get("_page");
  el.append(frame);
  return () => {
    model.off("change:_address", notify);
    themes.stop();
    kernel.stop();
  };
}

/** Requests as messages to the kernel, and its messages as responses. */
class Kernel {
  constructor(model) {
    this.model = model;
    this.answers = new Map(); // of requests that are not answered in full, by id
    this.receive = (message, buffers) => this.answers.get(message.id)?.(message, buffers);
    model.on("msg:custom", this.receive);
  }

  /** Like `fetch` of the browser, as far as Studio uses it. */
  async fetch(path, { method = "GET", headers = {}, body, signal } = {}) {
    const content = body === undefined ? [] : [new DataView(await new Blob([body]).arrayBuffer())];
    signal?.throwIfAborted();
    const id = crypto.randomUUID();
    return new Promise((resolve, reject) => {
      let sink;
      const end = () => this.answers.delete(id);
      const source = new ReadableStream({ start: (controller) => (sink = controller) });
      this.answers.set(id, ({ status, headers: sent, last }, buffers) => {
        if (status) resolve(new Response(source, { status, headers: sent }));
        for (const part of buffers ?? []) sink.enqueue(bytesOf(part));
        if (last) sink.close();
        if (last) end();
      });
      signal?.addEventListener("abort", () => {
        if (!end()) return; // answered already
        this.model.send({ id, abort: true });
        const reason = new DOMException("The request was aborted.", "AbortError");
        reject(reason);
        sink.error(reason);
      });
      this.model.send({ id, path: String(path), method, headers }, undefined, content);
    });
  }

  stop() {
    this.model.off("msg:custom", this.receive);
    for (const id of this.answers.keys()) this.model.send({ id, abort: true });
    this.answers.clear();
  }
}

/** A copy: the view may show a part of a larger buffer. */
const bytesOf = (view) => new Uint8Array(view.buffer, view.byteOffset, view.byteLength).slice();

/** The colours of the notebook: JupyterLab and VS Code mark them at the body, others follow the system. */
class Themes {
  #system = matchMedia("(prefers-color-scheme: dark)");
  #apply = () => {};
  #observer = new MutationObserver(() => this.#show());
  #show = () => this.#apply(this.#isDark() ? "dark" : "light");

  constructor() {
    this.#observer.observe(document.body, { attributes: true });
    this.#system.addEventListener("change", this.#show);
  }

  follow(apply) {
    this.#apply = apply;
    this.#show();
  }

  stop() {
    this.#observer.disconnect();
    this.#system.removeEventListener("change", this.#show);
  }

  #isDark() {
    const { jpThemeLight, vscodeThemeKind } = document.body.dataset;
    if (jpThemeLight) return jpThemeLight === "false";
    if (vscodeThemeKind) return !vscodeThemeKind.includes("light");
    return this.#system.matches;
  }
}
