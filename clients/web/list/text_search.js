// Search in the texts of messages. The server has no such search, so the newest conversations are read once and kept while
// they are unchanged; the reading stops when another query begins.
import * as api from "../api.js";
import { partsOf } from "../text/user_text.js";

const MOST_CONVERSATIONS = 300;
const AT_ONCE = 4;
const AROUND = 36; // characters of a snippet before the match
const LONGEST = 160;

// The place of a match with some text around it: {before, match, after}.
function snippetOf(text, query) {
  const at = text.toLowerCase().indexOf(query);
  if (at < 0) return null;
  const from = Math.max(0, at - AROUND);
  const flat = (part) => part.replace(/\s+/g, " ");
  return {
    before: (from > 0 ? "…" : "") + flat(text.slice(from, at)), match: flat(text.slice(at, at + query.length)),
    after: flat(text.slice(at + query.length, from + LONGEST)),
  };
}

const readable = ({ role, text }) => (role === "user" ? partsOf(text).map((part) => part.text ?? part.code).join("\n") : text);

export class TextSearch {
  #texts = new Map(); // id -> {updated, texts}
  #search = 0;

  stop() {
    ++this.#search;
  }

  // Calls found({entry, snippet}) for each entry with a match, and resolves to true if the search was not stopped.
  async run(entries, query, found) {
    const search = ++this.#search;
    const queue = entries.slice(0, MOST_CONVERSATIONS);
    const work = async () => {
      for (let entry = queue.shift(); entry && search === this.#search; entry = queue.shift()) {
        const texts = await this.#read(entry);
        const snippet = search === this.#search && texts.map((text) => snippetOf(text, query)).find(Boolean);
        if (snippet) found({ entry, snippet });
      }
    };
    await Promise.all(Array.from({ length: AT_ONCE }, work));
    return search === this.#search;
  }

  async #read({ id, updated }) {
    const known = this.#texts.get(id);
    if (known?.updated === updated) return known.texts;
    try {
      const texts = (await api.getItems(id)).map(readable);
      this.#texts.set(id, { updated, texts });
      return texts;
    } catch {
      return []; // deleted meanwhile, or damaged
    }
  }
}
