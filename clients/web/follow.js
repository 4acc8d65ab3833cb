// Follows a conversation that another window has resumed: one socket receives a conversation's events (ws/PROTOCOL.md,
// Resume), so this window polls its state and streams a running answer over HTTP, until it resumes the conversation itself.
import * as api from "./api.js";

const INTERVAL_MS = 1_500;

const stateOf = ({ metadata, ringside }) => `${ringside.items} ${ringside.position} ${ringside.updated_at} ${JSON.stringify(metadata)}`;

export class Follower {
  #state = null;
  #timer = 0;
  #closed = false;
  #streaming = new AbortController();
  #answering = "";

  // `act`: changed(), begin(response), hear(event), lost(error), found().
  constructor(id, act) {
    this.id = id;
    this.act = act;
    this.onshow = () => document.hidden || this.#look();
    document.addEventListener("visibilitychange", this.onshow);
    this.#look();
  }

  close() {
    this.#closed = true;
    clearTimeout(this.#timer);
    this.#streaming.abort();
    document.removeEventListener("visibilitychange", this.onshow);
  }

  async #look() {
    clearTimeout(this.#timer);
    try {
      if (!document.hidden) {
        const info = await api.getConversation(this.id);
        if (this.#closed) return;
        this.act.found();
        await this.#compare(info);
      }
    } catch (error) {
      if (!this.#closed) this.act.lost(error, INTERVAL_MS);
    }
    if (!this.#closed) this.#timer = setTimeout(() => this.#look(), INTERVAL_MS);
  }

  async #compare(info) {
    const running = info.ringside.active_response_id ?? "";
    const known = this.#state;
    this.#state = stateOf(info);
    if (running && running !== this.#answering) {
      this.#answering = running;
      this.act.begin(running);
      // Ends with the answer; a stream that is cut is followed by the next look.
      await api.streamResponse(running, (event) => this.#closed || this.act.hear(event), this.#streaming.signal);
      this.#state = null;
    } else if (!running && known !== this.#state) {
      this.#answering = "";
      this.act.changed();
    }
  }
}
