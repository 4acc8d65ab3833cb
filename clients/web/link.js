// One conversation's WebSocket: resumes after every loss, delivers each event once, and reports when it will retry. See
// "Resume" in ws/PROTOCOL.md.
import { getModel } from "./api.js";
import { apiKey } from "./store.js";
import { t } from "./strings.js";

const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 20_000;
// Close codes after which a retry would be refused again; all others are retried.
const FINAL = {
  1008: t("The server ended the connection: too many messages."),
  1009: t("The message exceeds the server's limit."),
  4409: t("Too many windows show this conversation."),
  4410: "deleted",
  4412: "diverged",
};

export class Link {
  #socket = null;
  #timer = 0;
  #attempt = 0;
  #after; // seq of the last event delivered
  #epoch;
  #known;
  #closed = false;
  #ready = false;

  // `tell` receives {type: "state", state: "open" | "connecting" | "waiting" | "ended", ...} and every server event.
  constructor(session, tell) {
    this.session = session;
    this.tell = tell;
    this.onwake = () => this.#socket === null && this.retryNow();
    addEventListener("online", this.onwake);
    document.addEventListener("visibilitychange", this.onwake);
    // Deferred: the owner is still being constructed, and must not be notified before this returns.
    this.#timer = setTimeout(() => this.#connect(), 0);
  }

  get ready() {
    return this.#ready;
  }

  send(event) {
    if (this.#ready) this.#socket.send(JSON.stringify(event));
    return this.#ready;
  }

  close() {
    this.#closed = true;
    clearTimeout(this.#timer);
    removeEventListener("online", this.onwake);
    document.removeEventListener("visibilitychange", this.onwake);
    this.#drop();
  }

  retryNow() {
    if (this.#closed || this.#socket !== null) return;
    clearTimeout(this.#timer);
    this.#connect();
  }

  #drop() {
    const socket = this.#socket;
    this.#socket = null;
    this.#ready = false;
    if (!socket) return;
    socket.onopen = socket.onmessage = socket.onclose = null;
    socket.close();
  }

  #connect() {
    this.tell({ type: "state", state: "connecting" });
    const key = apiKey.load();
    const url = new URL("/v1/responses", location.href);
    url.protocol = url.protocol === "https:" ? "wss:" : "ws:";
    try {
      this.#socket = new WebSocket(url, key ? ["ringside", `openai-insecure-api-key.${key}`] : ["ringside"]);
    } catch {
      // The key has characters that are not allowed in a subprotocol.
      this.tell({ type: "state", state: "ended", reason: "key" });
      return;
    }
    this.#socket.onopen = () => this.#resume();
    this.#socket.onmessage = (message) => this.#hear(JSON.parse(message.data));
    this.#socket.onclose = (close) => this.#onClose(close);
  }

  #resume() {
    // Watching: every window of the conversation receives its events.
    const event = { type: "ringside:session.resume", session: this.session, watch: true };
    if (this.#epoch !== undefined && this.#after !== undefined) Object.assign(event, { epoch: this.#epoch, after: this.#after });
    if (this.#known) event.known = this.#known;
    this.#socket.send(JSON.stringify(event));
  }

  #hear(event) {
    if (event.type === "ringside:session.resumed") {
      this.#attempt = 0;
      // The epoch advanced by more than this resume: other clients attached, or a restart renumbered the events.
      const between = event.epoch > this.#epoch + 1;
      this.#epoch = event.epoch;
      if (event.position) this.#known = { seq: event.position.seq, chain: event.position.chain };
      // Some events since the last one are not replayed: reload the messages.
      event.missed = this.#after !== undefined && event.replay !== "events" && (between || this.#after !== event.next_seq - 1);
      if (event.replay !== "events") this.#after = event.next_seq - 1;
      this.#ready = event.session_present;
      this.tell({ type: "state", state: "open" });
    } else if (event.type === "ringside:session.snapshot") {
      this.#after = event.next_seq - 1;
    }
    const seq = event.ringside?.seq;
    if (seq !== undefined) {
      if (seq <= this.#after) return this.tell({ ...event, again: true });
      this.#after = seq;
    }
    const report = event.response?.ringside;
    if (report?.chain) this.#known = { seq: report.seq, chain: report.chain };
    this.tell(event);
  }

  async #onClose(close) {
    this.#drop();
    if (this.#closed) return;
    if (FINAL[close.code]) {
      this.tell({ type: "state", state: "ended", reason: FINAL[close.code] });
      return;
    }
    const longest = Math.min(LONGEST_DELAY_MS, FIRST_DELAY_MS * 2 ** this.#attempt++);
    // The first retry is immediate: usually the server restarted or the network changed.
    const delay = this.#attempt === 1 ? FIRST_DELAY_MS : longest / 2 + (Math.random() * longest) / 2;
    this.tell({ type: "state", state: "waiting", until: Date.now() + delay, reason: "" });
    this.#timer = setTimeout(() => this.#connect(), delay);
    if (this.#attempt < 2) return;
    // Browsers hide why an upgrade was refused; an HTTP request reveals it.
    try {
      await getModel();
    } catch (error) {
      if (this.#closed || this.#socket !== null) return;
      if (error.status === 401) {
        clearTimeout(this.#timer);
        this.tell({ type: "state", state: "ended", reason: "key" });
      } else if (error.status) {
        this.tell({ type: "state", state: "waiting", until: Date.now() + delay, reason: error.message });
      }
    }
  }
}
