/** The last question counts: asking again ends the one before, and nobody ever sees its answer. */
export class Latest {
  #number = 0;
  #controller = null;

  /**
   * Ask, after a pause in which a newer question may come.
   * @param work   takes an AbortSignal and promises an answer
   * @param heard  {answered, refused}: at most one of the two is called, and only for the newest question
   */
  async ask(work, { answered, refused, pause = 0 }) {
    this.stop();
    const number = this.#number;
    const { signal } = (this.#controller = new AbortController());
    const newest = () => number === this.#number;
    try {
      await rest(pause);
      const answer = newest() && (await work(signal));
      if (newest()) answered(answer);
    } catch (error) {
      if (newest()) refused(error);
    }
  }

  /** End what is under way; neither an answer nor an error will come of it. */
  stop() {
    this.#number += 1;
    this.#controller?.abort();
  }
}

/** A promise that is kept after so many milliseconds. */
export function rest(milliseconds) {
  return new Promise((kept) => setTimeout(kept, milliseconds));
}
