// The open conversation: its messages, the answer that is being written, the request that may not have arrived. It knows
// no elements; whoever shows it hears of changes by `tell(what)`:
//   "messages" all of them, "live" an answer begins, "text" it grows, "end" it has ended, "state" anything else.
import * as api from "./api.js";
import { forkMetadata, rootOf } from "./branches.js";
import { Link } from "./link.js";
import { answersRequest, readConversation } from "./reading.js";
import { pending, randomId } from "./store.js";

const SHOWN = new Set(["user", "assistant", "tool", "system", "developer"]);
const LOAD_AGAIN_MS = 2_000;

const isEnd = ({ type }) => /^response\.(completed|incomplete|failed)$/.test(type);

export class Conversation {
  items = []; // {id, role, text, reasoning, complete}
  info = null; // the conversation object
  memory = null; // of GET .../memory
  turns = new Map(); // item id -> the reports of the turns that wrote it
  live = null; // {responseId, itemId, text, reasoning, reasonedMs, tokens, begunAt, firstAt, position}
  pending = null; // {id, text, event, error}: what was asked and is not acknowledged
  connection = { state: "connecting" };
  loadError = null;
  #link = null;
  #closed = false;
  #loads = 0; // the newest one counts
  #loaded = false;
  #waiting = []; // events that came before the messages were read
  #running = ""; // the response that is being written, by all that was told
  #ended = new Set(); // responses whose end is in the messages
  #sent = ""; // the request that this connection has sent
  #stops = ""; // the response that is to be stopped, or the request if nothing is known of its response yet
  #refreshes = 0;
  #verbs = []; // forks that were asked for and not answered
  #resumeAlone = null; // with which options an answer that a restart cut goes on by itself, once for each question

  // `made`: the conversation object of one that was made just now, of which there is nothing to read.
  constructor(id, tell, made = null) {
    this.id = id;
    this.tell = tell;
    this.info = made;
    this.#loaded = made !== null;
    this.pending = pending.load(id);
    this.#link = this.#connect();
  }

  #connect() {
    return new Link(this.id, (event) => this.#closed || this.#hear(event));
  }

  close() {
    this.#closed = true;
    this.#link.close();
    for (const verb of this.#verbs) verb.reject(new Error("closed"));
  }

  get busy() {
    return this.live !== null || (this.pending !== null && !this.pending.error);
  }

  // What is shown as one message: an answer that was cut and went on is one. What is no message is not shown.
  messages() {
    const groups = [];
    this.items.forEach((item, index) => {
      if (!SHOWN.has(item.role)) return;
      const last = groups.at(-1);
      if (item.role === "assistant" && last?.role === "assistant") {
        last.ids.push(item.id);
        last.text += item.text;
        last.reasoning += item.reasoning ?? "";
        last.complete = item.complete;
        last.end = index + 1;
      } else {
        groups.push({ role: item.role, ids: [item.id], text: item.text, reasoning: item.reasoning ?? "", complete: item.complete, start: index, end: index + 1 });
      }
    });
    return groups;
  }

  // Asks. `options` are fields of response.create.
  send(text, options = {}) {
    this.#resumeAlone = options;
    this.#create({ input: text, ...options }, text);
  }

  // Lets the conversation's end be answered: again, or further.
  answer(options = {}) {
    this.#create({ input: [], ...options }, null);
  }

  retry() {
    if (!this.pending) return;
    this.pending.error = null;
    this.pending.id = randomId();
    this.pending.event.metadata.client_request_id = this.pending.id;
    this.#submit();
  }

  forget() {
    this.#settle();
    this.tell("state");
  }

  stop() {
    if (!this.busy) return;
    this.#stops = this.live?.responseId ?? this.pending.id;
    this.#stopNow();
  }

  // Without a connection, or while the messages are read anew, it is said later.
  #stopNow() {
    if (this.live?.responseId === this.#stops) this.#link.send({ type: "response.cancel", response_id: this.#stops });
  }

  reconnect() {
    this.#link.close();
    this.#loaded = false;
    this.#waiting = [];
    this.#running = "";
    this.live = null;
    this.#link = this.#connect();
  }

  retryNow() {
    this.#link.retryNow();
  }

  // A new conversation with the first `at` items; its id.
  fork(at, title) {
    return new Promise((resolve, reject) => {
      const sent = this.#link.send({
        type: "ringside:session.fork", session: this.id, at, metadata: forkMetadata(this.info, at, title),
      });
      if (sent) this.#verbs.push({ resolve, reject });
      else reject(new Error("There is no connection to the server."));
    });
  }

  async refresh() {
    const refresh = ++this.#refreshes;
    try {
      const [info, memory] = await Promise.all([api.getConversation(this.id), api.getMemory(this.id)]);
      if (this.#closed || refresh !== this.#refreshes || !this.#loaded) return;
      this.info = info;
      this.#remember(memory);
      this.tell("state");
      // Items can be added, or taken away, without anything being told.
      if (!this.busy && info.ringside.items !== this.items.length) this.#load();
    } catch {
      // The next turn, or the next look, brings it.
    }
  }

  #create(fields, text) {
    const id = randomId();
    this.pending = {
      id, text, error: null,
      event: { type: "response.create", conversation: this.id, metadata: { client_request_id: id }, ...fields },
    };
    this.#submit();
  }

  #submit() {
    pending.save(this.id, this.pending);
    this.#ask();
    this.tell("messages");
  }

  // Sends what was asked, once for each connection: the server knows by its id whether it has had it already. Not before the
  // messages are there: it would be answered in a conversation that nobody has seen.
  #ask() {
    if (!this.#loaded || !this.pending || this.pending.error || this.#sent === this.pending.id) return;
    if (this.#link.send(this.pending.event)) this.#sent = this.pending.id;
  }

  // What was asked has arrived, in this response, or is given up.
  #settle(responseId = "") {
    if (this.pending && this.#stops === this.pending.id) this.#stops = responseId;
    this.pending = null;
    pending.save(this.id, null);
  }

  async #load() {
    const load = ++this.#loads;
    const current = () => !this.#closed && load === this.#loads;
    this.#loaded = false;
    try {
      const read = await readConversation(this.id, () => this.#running);
      const newest = [read.running, read.memory.turns.at(-1)?.response_id].filter(Boolean);
      const arrived = this.pending && !this.pending.error && (await answersRequest(this.pending.id, newest));
      if (current()) this.#show(read, arrived);
    } catch (error) {
      if (!current()) return;
      this.loadError = error;
      this.tell("state");
      // A server that has no time now is asked again; one that is away, when there is a connection.
      if (error.status === 429 || error.status === 503) setTimeout(() => current() && this.#load(), Math.max(LOAD_AGAIN_MS, error.retryAfterMs));
    }
  }

  #show(read, arrived) {
    if (arrived) this.#settle(read.running);
    this.items = read.asked;
    this.info = read.info;
    this.#ended = read.ended;
    this.#remember(read.memory);
    this.loadError = null;
    this.#loaded = true;
    const last = read.memory.turns.at(-1);
    const cut = last?.incomplete_reason === "interrupted" && last.response_id === this.live?.responseId;
    this.live = null;
    if (read.running) this.#begin(read.running, null, read.items.length);
    else this.tell("messages");
    while (this.#loaded && this.#waiting.length) this.#apply(this.#waiting.shift());
    if (cut && last.response_id !== this.#stops) this.#goOn();
    this.#stopNow();
    this.#ask();
  }

  #remember(memory) {
    this.memory = memory;
    this.turns = new Map();
    for (const turn of memory.turns) this.#addTurn(turn);
  }

  #addTurn(turn) {
    if (!this.turns.has(turn.item_id)) this.turns.set(turn.item_id, []);
    const turns = this.turns.get(turn.item_id);
    if (!turns.some((known) => known.response_id === turn.response_id)) turns.push(turn);
  }

  #hear(event) {
    switch (event.type) {
      case "state":
        this.connection = event;
        if (event.state === "ended" && event.reason === "deleted") this.loadError = { status: 404, message: "This conversation was deleted." };
        return this.tell("state");
      case "ringside:session.resumed":
        return this.#onResumed(event);
      case "ringside:session.forked":
        return this.#verbs.shift()?.resolve(event.session);
      case "ringside:session.failed":
        return event.verb === "fork" ? this.#verbs.shift()?.reject(new Error(event.error.message)) : undefined;
      case "ringside:session.snapshot":
        this.#running = event.response_id;
        break;
      case "response.created":
        if (!event.again) this.#running = event.response.id;
        break;
    }
    if (isEnd(event) && event.response.id === this.#running) this.#running = "";
    if (this.#loaded) this.#apply(event);
    else this.#waiting.push(event);
  }

  #onResumed(event) {
    this.#sent = "";
    if (!event.session_present) {
      this.loadError = { status: 404, message: "There is no such conversation on this server." };
      return this.tell("state");
    }
    if (event.missed) this.#waiting = [];
    if (event.missed || !this.#loaded) {
      this.#running = event.active_response_id ?? "";
      this.#load();
    } else {
      this.#stopNow();
      this.#ask();
    }
  }

  // One event after the other, behind what was read.
  #apply(event) {
    const { live, tell } = this;
    if (event.type === "response.created") return this.#onCreated(event);
    if (event.type === "error") return this.#refused(event.error);
    if (isEnd(event)) return this.#onEnd(event);
    if (event.again || !live) return;
    switch (event.type) {
      case "ringside:session.snapshot":
        if (live.responseId !== event.response_id) return;
        live.itemId = event.item_id;
        live.reasoning = event.reasoning ?? "";
        live.text = event.output ? this.#behindCut(api.wholeItems(event.output)[0]) : event.text;
        return tell("text");
      case "ringside:response.queued":
        live.queued = event.position;
        return tell("state");
      case "response.output_item.added":
        live.itemId = api.wholeId(event.item.id);
        if (event.item.type !== "function_call") return;
        live.text += live.text ? "\n\n" + api.textOf(event.item) : this.#behindCut(api.wholeItems([event.item])[0]);
        return tell("text");
      case "response.reasoning_text.delta":
      case "response.reasoning_summary_text.delta":
        live.firstAt ??= performance.now();
        live.queued = 0;
        live.tokens += 1;
        live.reasoning += event.delta;
        return tell("text");
      case "response.reasoning_text.done":
      case "response.reasoning_summary_text.done":
        live.reasoning = event.text;
        if (live.firstAt) live.reasonedMs = performance.now() - live.firstAt;
        return tell("text");
      case "response.output_text.delta":
      case "response.function_call_arguments.delta":
        live.firstAt ??= performance.now();
        live.queued = 0;
        live.tokens += 1;
        live.text += event.delta;
        return tell("text");
      case "response.output_item.done":
        if (event.item.type !== "function_call") return;
        live.text += api.CALL_END;
        return tell("text");
      case "response.output_text.done":
        if (live.text === event.text) return;
        live.text = event.text;
        return tell("text");
    }
  }

  #onCreated({ response, again }) {
    const asked = this.pending && response.metadata?.client_request_id === this.pending.id ? this.pending : null;
    if (asked) this.#settle(response.id);
    if (again || this.#ended.has(response.id) || this.live?.responseId === response.id) return asked && this.tell("messages");
    // Somebody else asked: what, the server knows.
    if (!asked) return this.#load();
    const before = this.items.length;
    if (asked.text !== null) this.items.push({ id: `asked-${response.id}`, role: "user", text: asked.text, complete: true });
    this.#begin(response.id, asked, before);
    this.#stopNow();
  }

  // `before`: how many items there were before it was asked for.
  #begin(responseId, asked, before) {
    this.live = {
      responseId, asked, before, itemId: null, text: "", reasoning: "", reasonedMs: null, tokens: 0, begunAt: performance.now(), firstAt: null,
      position: this.info?.ringside.position ?? 0,
    };
    this.tell("live");
  }

  // What an answer adds to the last item, if it is that which goes on. A call is told from its beginning: where it was
  // cut it is shown no more.
  #behindCut(item) {
    const cut = this.items.at(-1);
    if (item.callsAt !== 0 || cut?.id !== item.id) return item.text;
    if (cut.callsAt !== undefined) {
      Object.assign(cut, { text: cut.text.slice(0, cut.callsAt), callsAt: undefined });
      this.tell("live");
    }
    return (cut.text && "\n\n") + item.text;
  }

  #refused(error) {
    if (!this.pending || this.pending.error) return;
    // What continues by itself waits for the server that comes after this one: the next connection asks for it again.
    if (this.pending.text === null && error.code === "unavailable") return;
    this.pending.error = { message: error.message, code: error.code, retryAfterMs: error.retry_after_ms || 0 };
    pending.save(this.id, this.pending);
    this.tell("messages");
  }

  #onEnd({ response, again }) {
    if (again || this.#ended.has(response.id)) return;
    // It could not be read while it ran.
    if (this.live?.responseId !== response.id) return this.#load();
    this.#ended.add(response.id);
    this.#end(response);
  }

  async #end(response) {
    const live = this.live;
    this.live = null;
    const failed = response.status === "failed";
    if (failed) this.#failed(live, response.error?.message || "The answer failed.");
    const output = api.wholeItems(response.output);
    for (const item of failed ? [] : output) {
      const cut = this.items.at(-1), more = this.#behindCut(item);
      // One that goes on stays one item.
      if (cut?.id === item.id) Object.assign(cut, { text: cut.text + more, reasoning: (cut.reasoning ?? "") + item.reasoning, complete: item.complete });
      else this.items.push(item);
    }
    this.#addTurn({
      response_id: response.id, item_id: output[0]?.id ?? "", status: response.status,
      incomplete_reason: response.ringside?.incomplete_reason ?? response.incomplete_details?.reason ?? null,
      output_tokens: response.usage?.output_tokens ?? 0,
      ringside: response.ringside,
    });
    const interrupted = response.incomplete_details?.reason === "interrupted";
    this.tell("end");
    if (interrupted && response.id !== this.#stops) this.#goOn();
    await this.refresh();
  }

  // What a restart has cut goes on by itself, once for each question that was asked here.
  #goOn() {
    const options = this.#resumeAlone;
    this.#resumeAlone = null;
    if (options) this.answer(options);
  }

  // A failed turn leaves the conversation as it was before: the question waits to be asked again.
  #failed(live, message) {
    const text = this.items.slice(live.before).map((item) => item.text).join("\n\n") || null;
    const event = { type: "response.create", conversation: this.id, metadata: {}, input: text ?? [] };
    this.items.length = live.before;
    this.pending = { ...(live.asked ?? { text, event }), error: { message, code: "failed", retryAfterMs: 0 } };
    pending.save(this.id, this.pending);
  }
}
