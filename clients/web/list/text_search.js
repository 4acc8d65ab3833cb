// Search in the texts of messages, by the server: one page of conversations after the other. Stops when another search
// begins.
import * as api from "../api.js";

const MOST_MATCHES = 100;

export class TextSearch {
  #running = null;

  stop() {
    this.#running?.abort();
    this.#running = null;
  }

  // Calls found({id, excerpt}) for each conversation with a match, newest first, and resolves to true if the search was
  // not stopped.
  async run(query, found) {
    this.stop();
    const running = (this.#running = new AbortController());
    try {
      for (let after = "", matches = 0; ; ) {
        const page = await api.searchMessages(query, after, running.signal);
        if (running !== this.#running) return false;
        for (const match of page.data) found(match);
        matches += page.data.length;
        if (!page.has_more || !page.last_id || matches >= MOST_MATCHES) return true;
        after = page.last_id;
      }
    } catch {
      // The server is busy or unreachable: the matches so far remain.
      return running === this.#running;
    }
  }
}
