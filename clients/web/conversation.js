// The open conversation: its messages, the running answer, and the request that the server has not acknowledged. It has
// no DOM; its owner is notified of changes by `tell(what)`:
//   "messages": all of them, "live": an answer starts, "text": it grows, "end": it has ended, "state": anything else.
import * as api from "./api.js";
import { forkMetadata } from "./list/branches.js";
import { Link } from "./link.js";
import { answersRequest, readConversation } from "./reading.js";
import { pending, randomId } from "./store.js";
import { t } from "./strings.js";

const SHOWN = new Set(["user", "assistant", "tool", "system", "developer"]);
const LOAD_AGAIN_MS = 2_000;

const questionOf = (text, images) => (images.length
  ? [{ type: "message", role: "user", content: [...images.map((url) => ({ type: "input_image", image_url: url, detail: "auto" })), ...(text ? [{ type: "input_text", text }] : [])] }]
  : text);

const isEnd = ({ type }) => /^response\.(completed|incomplete|failed)$/.test(type);

export class Conversation {
  items = []; // {id, role, text, images, reasoning, complete}
  info = null; // the conversation object
  memory = null; // response of GET .../memory
  turns = new Map(); // item id -> reports of the turns that wrote it
  live = null; // {responseId, itemId, text, reasoning, reasonedMs, tokens, begunAt, firstAt, position}
  pending = null; // {id, text, images, event, error}: request not yet acknowledged
  connection = { state: "connecting" };
  loadError = null;
  #link = null;
  #closed = false;
  #loads = 0; // only the newest load counts
  #loaded = false;
  #waiting = []; // events received before the messages were loaded
  #running = ""; // id of the running response, from the events so far
  #ended = new Set(); // ids of ended responses that are part of the messages
  #sent = ""; // id of the request sent on this connection
  #stops = ""; // id of the response to cancel; the request's id until its response is known
  #refreshes = 0;
  #verbs = []; // forks without a reply yet
  #resumeAlone = null; // options for automatically continuing an answer cut by a restart, used once per question

  // `made`: the conversation object if it was just created, so that nothing has to be loaded.
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

  // Items grouped as displayed messages: a cut answer and its continuation are one. Items that are not messages are
  // hidden.
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
        groups.push({ role: item.role, ids: [item.id], text: item.text, images: item.images ?? [], reasoning: item.reasoning ?? "", complete: item.complete, tool: item.tool, start: index, end: index + 1 });
      }
    });
    return groups;
  }

  // Sends a question. `options`: fields of response.create; `images`: data URLs, which the model reads before the text.
  send(text, options = {}, images = []) {
    this.#resumeAlone = options;
    this.#create({ input: questionOf(text, images), ...options }, text, images);
  }

  // Generates an answer to the end of the conversation: another one, or the continuation.
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

  // Without a connection, or while the messages are reloaded, the cancel is sent later.
  #stopNow() {
    if (!this.live || this.live.responseId !== this.#stops) return;
    this.#link.send({ type: "response.cancel", response_id: this.#stops });
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

  // Forks the first `at` items; resolves to the new conversation's id.
  fork(at, title) {
    return new Promise((resolve, reject) => {
      const sent = this.#link.send({
        type: "ringside:session.fork", session: this.id, at, metadata: forkMetadata(this.info, at, title),
      });
      if (sent) this.#verbs.push({ resolve, reject });
      else reject(new Error(t("There is no connection to the server.")));
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
      // Items can be added or deleted without an event.
      if (!this.busy && info.ringside.items !== this.items.length) this.#load();
    } catch {
      // The next turn, or the next check, reloads it.
    }
  }

  #create(fields, text, images = []) {
    const id = randomId();
    this.pending = {
      id, text, images, error: null,
      event: { type: "response.create", conversation: this.id, metadata: { client_request_id: id }, ...fields },
    };
    this.#submit();
  }

  #submit() {
    pending.save(this.id, this.pending);
    this.#ask();
    this.tell("messages");
  }

  // Sends the pending request once per connection; the server deduplicates by its id. Waits until the messages are
  // loaded, so that no answer is generated in a conversation the user has not seen.
  #ask() {
    if (!this.#loaded || !this.pending || this.pending.error || this.#sent === this.pending.id) return;
    if (this.pending.lost) return this.#refused({ code: "images_lost", message: t("The images of this message were too large to be kept by this browser. Edit the message and attach them again.") });
    if (this.#link.send(this.pending.event)) this.#sent = this.pending.id;
  }

  // The pending request was accepted as this response, or is abandoned.
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
      // A busy server is retried after a delay; an unreachable one after reconnecting.
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
    // A question that was sent from here gets its id from the message before its answer.
    const { messages } = memory;
    messages.forEach(({ id }, at) => {
      const asked = this.items[this.items.findIndex((item) => item.id === id) - 1];
      if (asked?.id.startsWith("asked-") && messages[at - 1]?.role === "user") asked.id = messages[at - 1].id;
    });
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
        if (event.state === "ended" && event.reason === "deleted") this.loadError = { status: 404, message: t("This conversation was deleted.") };
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
      this.loadError = { status: 404, message: t("There is no such conversation on this server.") };
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

  // Applies events one by one, after the loaded messages.
  #apply(event) {
    const { live, tell } = this;
    if (event.type === "response.created") return this.#onCreated(event);
    if (event.type === "ringside:session.changed") return void this.refresh();
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
    // Another client sent the question: load it from the server.
    if (!asked) return this.#load();
    const before = this.items.length;
    if (asked.text !== null) this.items.push({ id: `asked-${response.id}`, role: "user", text: asked.text, images: asked.images ?? [], complete: true });
    this.#begin(response.id, asked, before);
    this.#stopNow();
  }

  // `before`: number of items before the question.
  #begin(responseId, asked, before) {
    this.live = {
      responseId, asked, before, itemId: null, text: "", reasoning: "", reasonedMs: null, tokens: 0, begunAt: performance.now(), firstAt: null,
      position: this.info?.ringside.position ?? 0,
    };
    this.tell("live");
  }

  // The text that the answer adds when it continues the last item. A call is streamed from its beginning, so its cut
  // part is not shown again.
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
    // An automatic continuation waits for the restarted server: it is sent again on the next connection.
    if (this.pending.text === null && error.code === "unavailable") return;
    this.pending.error = { message: error.message, code: error.code, retryAfterMs: error.retry_after_ms || 0 };
    pending.save(this.id, this.pending);
    this.tell("messages");
  }

  #onEnd({ response, again }) {
    if (again || this.#ended.has(response.id)) return;
    // The answer could not be loaded while it ran.
    if (this.live?.responseId !== response.id) return this.#load();
    this.#ended.add(response.id);
    this.#end(response);
  }

  async #end(response) {
    const live = this.live;
    this.live = null;
    const failed = response.status === "failed";
    if (failed) this.#failed(live, response.error?.message || t("The answer failed."));
    const output = api.wholeItems(response.output);
    for (const item of failed ? [] : output) {
      const cut = this.items.at(-1), more = this.#behindCut(item);
      // A continued answer remains one item.
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

  // Continues an answer cut by a restart, once per question sent from this page.
  #goOn() {
    const options = this.#resumeAlone;
    this.#resumeAlone = null;
    if (options) this.answer(options);
  }

  // A failed turn leaves the conversation unchanged: its question becomes pending again.
  #failed(live, message) {
    const text = this.items.slice(live.before).map((item) => item.text).join("\n\n") || null;
    const images = this.items.slice(live.before).flatMap((item) => item.images ?? []);
    const event = { type: "response.create", conversation: this.id, metadata: {}, input: text === null ? [] : questionOf(text, images) };
    this.items.length = live.before;
    this.pending = { ...(live.asked ?? { text, images, event }), error: { message, code: "failed", retryAfterMs: 0 } };
    pending.save(this.id, this.pending);
  }
}
