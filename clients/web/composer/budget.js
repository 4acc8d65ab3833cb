// Counts a message in tokens against the model's window, before it is sent.
import * as api from "../api.js";

const PAUSE_MS = 350; // after the last keystroke
const FRAME_TOKENS = 64; // around a message in the chat template

export class Budget {
  model = null;
  instructions = "";
  #timer = 0;
  #asked = 0;
  #last = null; // {text, result}

  // `show` receives {tokens, most, more}, or null for an empty message; `more`: the server stopped counting at its limit.
  constructor(show) {
    this.show = show;
  }

  get most() {
    return this.model?.max_input_tokens ?? Infinity;
  }

  watch(text) {
    clearTimeout(this.#timer);
    const asked = ++this.#asked;
    if (!text.trim() || !this.model) return this.show(null);
    this.#timer = setTimeout(async () => {
      const result = await this.count(text);
      if (asked === this.#asked && result) this.show(result);
    }, PAUSE_MS);
  }

  // A token has at least one byte.
  mayExceed(text) {
    return text.length + FRAME_TOKENS > this.most || new TextEncoder().encode(text).length + FRAME_TOKENS > this.most;
  }

  // Null if the server does not answer.
  async count(text) {
    if (this.#last?.text === text) return this.#last.result;
    const most = this.most;
    let result = null;
    try {
      result = { tokens: await api.countTokens(text, this.instructions), most };
    } catch (error) {
      if (error.code !== "context_length_exceeded") return null;
      result = { tokens: most + 1, most, more: true };
    }
    this.#last = { text, result };
    return result;
  }

  // The longest prefix of `text` whose message fits the window. `around` makes the message.
  async shorten(text, around) {
    let least = 0, most = text.length;
    for (let step = 0; step < 12 && most - least > Math.max(16, text.length / 200); ++step) {
      const middle = (least + most) >> 1;
      const result = await this.count(around(text.slice(0, middle)));
      if (!result) break;
      if (result.tokens <= result.most) least = middle;
      else most = middle;
    }
    return text.slice(0, least).replace(/[\ud800-\udbff]$/, "");
  }
}
