/** Keeps only the latest request: a new one ends the one before, whose answer is never shown. */
export class Latest {
  #number = 0;
  #controller = null;

  /**
   * Start a request after a pause.
   * @param work     takes an AbortSignal and returns a promise
   * @param on       {answered, refused}: at most one of them is called, and only for the latest request
   */
  async ask(work, { answered, refused, pause = 0 }) {
    this.stop();
    const number = this.#number;
    const { signal } = (this.#controller = new AbortController());
    const newest = () => number === this.#number;
    try {
      await wait(pause);
      const answer = newest() && (await work(signal));
      if (newest()) answered(answer);
    } catch (error) {
      if (newest()) refused(error);
    }
  }

  /** End the request; neither callback is called. */
  stop() {
    this.#number += 1;
    this.#controller?.abort();
  }
}

/** Wait for some milliseconds. */
export function wait(milliseconds) {
  return new Promise((resolve) => setTimeout(resolve, milliseconds));
}
