// One conversation's WebSocket: it resumes where it was after every loss, tells each event once, and says when it will
// try again. The protocol is described in ws/PROTOCOL.md, "Resume".
import { getModel } from "./api.js";
import { apiKey } from "./store.js";

const FIRST_DELAY_MS = 500;
const LONGEST_DELAY_MS = 20_000;
// A close after which the same request would be refused again; the others are worth another attempt.
const FINAL = {
  1008: "The server ended the connection: too many messages.",
  1009: "The message is longer than the server takes.",
  4409: "taken",
  4410: "deleted",
  4412: "diverged",
};

export class Link {
  #socket = null;
  #timer = 0;
  #attempt = 0;
  #after; // the last event of the session that was told
  #epoch;
  #known;
  #closed = false;
  #ready = false;

  // `tell` hears {type: "state", state: "open" | "connecting" | "waiting" | "ended", ...} and every event of the server.
  constructor(session, tell) {
    this.session = session;
    this.tell = tell;
    this.onwake = () => this.#socket === null && this.retryNow();
    addEventListener("online", this.onwake);
    document.addEventListener("visibilitychange", this.onwake);
    // Its owner is still being made: nothing is told before this has returned.
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
      // A key with characters that no subprotocol may have.
      this.tell({ type: "state", state: "ended", reason: "key" });
      return;
    }
    this.#socket.onopen = () => this.#resume();
    this.#socket.onmessage = (message) => this.#hear(JSON.parse(message.data));
    this.#socket.onclose = (close) => this.#onClose(close);
  }

  #resume() {
    const event = { type: "ringside:session.resume", session: this.session };
    if (this.#epoch !== undefined && this.#after !== undefined) Object.assign(event, { epoch: this.#epoch, after: this.#after });
    if (this.#known) event.known = this.#known;
    this.#socket.send(JSON.stringify(event));
  }

  #hear(event) {
    if (event.type === "ringside:session.resumed") {
      this.#attempt = 0;
      // More than this resume has raised it: others were here, or a restart has numbered the events anew.
      const between = event.epoch > this.#epoch + 1;
      this.#epoch = event.epoch;
      if (event.position) this.#known = { seq: event.position.seq, chain: event.position.chain };
      // Not everything since the last event will be told again: the messages have to be read anew.
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
    // At once the first time: most often it is a restart or a changed network.
    const delay = this.#attempt === 1 ? FIRST_DELAY_MS : longest / 2 + (Math.random() * longest) / 2;
    this.tell({ type: "state", state: "waiting", until: Date.now() + delay, reason: "" });
    this.#timer = setTimeout(() => this.#connect(), delay);
    if (this.#attempt < 2) return;
    // A browser does not say why an upgrade was refused; a request does.
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
