// The open conversation: its messages, the answer that is being written, the request that may not have arrived. It knows
// no elements; whoever shows it hears of changes by `tell(what)`:
//   "messages" all of them, "live" an answer begins, "text" it grows, "end" it has ended, "state" anything else.
import * as api from "./api.js";
import { forkMetadata, rootOf } from "./branches.js";
import { Link } from "./link.js";
import { pending, randomId } from "./store.js";

export class Conversation {
  items = []; // {id, role, text, complete}
  info = null; // the conversation object
  memory = null; // of GET .../memory
  turns = new Map(); // item id -> the reports of the turns that wrote it
  live = null; // {responseId, itemId, text, tokens, begunAt, firstAt, position}
  pending = null; // {id, text, event, error}: what was asked and is not acknowledged
  connection = { state: "connecting" };
  loadError = null;
  #link = null;
  #closed = false;
  #waiting = []; // events that came before the messages
  #loaded = false;
  #answering = ""; // the response whose input is being loaded
  #verbs = []; // forks that were asked for and not answered
  #resumeAlone = null; // with which options an answer that a restart cut goes on by itself, once for each question

  constructor(id, tell) {
    this.id = id;
    this.tell = tell;
    this.pending = pending.load(id);
    this.#link = new Link(id, (event) => this.#closed || this.#hear(event));
  }

  close() {
    this.#closed = true;
    this.#link.close();
    for (const verb of this.#verbs) verb.reject(new Error("closed"));
  }

  get busy() {
    return this.live !== null || (this.pending !== null && !this.pending.error);
  }

  // What is shown as one message: an answer that was cut and went on is one.
  messages() {
    const groups = [];
    this.items.forEach((item, index) => {
      const last = groups.at(-1);
      if (item.role === "assistant" && last?.role === "assistant") {
        last.ids.push(item.id);
        last.text += item.text;
        last.complete = item.complete;
        last.end = index + 1;
      } else {
        groups.push({ role: item.role, ids: [item.id], text: item.text, complete: item.complete, start: index, end: index + 1 });
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
    this.pending = null;
    pending.save(this.id, null);
    this.tell("state");
  }

  stop() {
    if (this.live) this.#link.send({ type: "response.cancel", response_id: this.live.responseId });
  }

  reconnect() {
    this.#link.close();
    this.#loaded = false;
    this.#waiting = [];
    this.live = null;
    this.#link = new Link(this.id, (event) => this.#closed || this.#hear(event));
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
    try {
      const [info, memory] = await Promise.all([api.getConversation(this.id), api.getMemory(this.id)]);
      if (this.#closed) return;
      this.info = info;
      this.#remember(memory);
      this.tell("state");
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
    this.#link.send(this.pending.event); // or as soon as there is a connection
    this.tell("messages");
  }

  // All messages. `answering` is the response that runs, "" for none; one that begins meanwhile counts instead.
  async #load(answering) {
    this.#answering = answering;
    try {
      let items, asked, info, memory, of;
      do {
        of = this.#answering;
        [items, asked] = await Promise.all([api.getItems(this.id), of ? api.getInputItems(of) : []]);
        [info, memory] = await Promise.all([api.getConversation(this.id), api.getMemory(this.id)]);
        if (this.#closed) return;
        // It has ended meanwhile, or another has begun: what was read may be of before or of after.
        if (of === this.#answering) this.#answering = info.ringside.active_response_id ?? "";
      } while (of !== this.#answering);
      // An answer that goes on is among the items, cut, and not in its own input.
      this.items = asked.length > items.length ? asked : items;
      this.info = info;
      this.#remember(memory);
      this.loadError = null;
      this.#loaded = true;
      for (const event of this.#waiting.splice(0)) this.#apply(event, true);
      this.tell("messages");
    } catch (error) {
      if (this.#closed) return;
      this.loadError = error;
      this.tell("state");
    }
  }

  #remember(memory) {
    this.memory = memory;
    this.turns = new Map();
    for (const turn of memory.turns) this.#addTurn(turn);
  }

  #addTurn(turn) {
    if (!this.turns.has(turn.item_id)) this.turns.set(turn.item_id, []);
    this.turns.get(turn.item_id).push(turn);
  }

  #hear(event) {
    if (event.type === "state") {
      this.connection = event;
      if (event.state === "ended" && event.reason === "deleted") this.loadError = { status: 404, message: "This conversation was deleted." };
      return this.tell("state");
    }
    if (event.type === "ringside:session.resumed") {
      if (!event.session_present) {
        this.loadError = { status: 404, message: "There is no such conversation on this server." };
        return this.tell("state");
      }
      // The server knows by its id whether it has had the request already.
      if (this.pending && !this.pending.error) this.#link.send(this.pending.event);
      if (this.#loaded && !event.missed) return;
      this.#loaded = false;
      this.live = null;
      this.#load(event.active_response_id || "");
      return;
    }
    if (this.#loaded) return this.#apply(event, false);
    this.#waiting.push(event);
    if (event.type === "response.created" && !event.again) this.#answering = event.response.id;
  }

  // `quiet`: all will be shown anew anyway.
  #apply(event, quiet) {
    const tell = quiet ? () => {} : this.tell;
    switch (event.type) {
      case "response.created":
        // It may be told after the messages were read that know of it already.
        return this.#begin(event.response, tell, event.again, quiet || event.response.id === this.#answering);
      case "ringside:session.snapshot":
        this.#begin({ id: event.response_id }, tell, false, true);
        if (this.live?.responseId !== event.response_id) return;
        this.live.itemId = event.item_id;
        this.live.text = event.text;
        return tell("live");
      case "ringside:response.queued":
        if (this.live) this.live.queued = event.position;
        return tell("state");
      case "ringside:session.forked":
        return this.#verbs.shift()?.resolve(event.session);
      case "ringside:session.failed":
        return event.verb === "fork" ? this.#verbs.shift()?.reject(new Error(event.error.message)) : undefined;
      case "error":
        return this.#refused(event.error, tell);
    }
    if (event.again) return;
    if (event.type === "response.output_item.added" && this.live) this.live.itemId = api.wholeItems([event.item])[0].id;
    if (event.type === "response.output_text.delta" && this.live) {
      this.live.firstAt ??= performance.now();
      this.live.queued = 0;
      this.live.tokens += 1;
      this.live.text += event.delta;
      return tell("text");
    }
    if (event.type === "response.output_text.done" && this.live && this.live.text !== event.text) {
      this.live.text = event.text;
      return tell("text");
    }
    if (/^response\.(completed|incomplete|failed)$/.test(event.type)) this.#end(event.response, tell);
  }

  // `known`: the messages that were loaded have the question.
  #begin(response, tell, again, known) {
    const mine = this.pending && response.metadata?.client_request_id === this.pending.id;
    const asked = mine ? this.pending : null;
    if (mine) {
      this.pending = null;
      pending.save(this.id, null);
      if (asked.text !== null && !again && !known) {
        this.items.push({ id: `asked-${response.id}`, role: "user", text: asked.text, complete: true });
      }
    }
    // Of what ended before the messages were read, they tell.
    if (again || (known && response.id !== this.#answering)) return tell("messages");
    if (this.live?.responseId === response.id) return;
    this.live = {
      responseId: response.id, itemId: null, text: "", tokens: 0, begunAt: performance.now(), firstAt: null, asked,
      before: this.items.length, position: this.info?.ringside.position ?? 0,
    };
    tell("live");
    if (!mine && !known) this.#readQuestion();
  }

  // Somebody else asked: what, the server knows.
  async #readQuestion() {
    const live = this.live;
    try {
      const items = await api.getInputItems(live.responseId);
      // An answer that goes on has nothing new before it.
      if (this.#closed || this.live !== live || items.length <= this.items.length) return;
      this.items = items;
      this.tell("messages");
    } catch {
      // Shown when the conversation is opened again.
    }
  }

  #refused(error, tell) {
    if (!this.pending || this.pending.error) return;
    this.pending.error = { message: error.message, code: error.code, retryAfterMs: error.retry_after_ms || 0 };
    pending.save(this.id, this.pending);
    tell("messages");
  }

  async #end(response, tell) {
    const live = this.live;
    if (!live || live.responseId !== response.id) return;
    this.live = null;
    const item = api.wholeItems(response.output ?? [])[0];
    if (response.status === "failed") {
      this.#failed(live, response.error?.message || "The answer failed.");
    } else if (item) {
      const text = item.text || live.text;
      const complete = item.complete;
      const cut = this.items.at(-1);
      // One that goes on stays one item.
      if (cut?.id === item.id) Object.assign(cut, { text: cut.text + text, complete });
      else this.items.push({ id: item.id, role: "assistant", text, complete });
    }
    this.#addTurn({
      response_id: response.id, item_id: item?.id ?? "", status: response.status,
      incomplete_reason: response.incomplete_details?.reason ?? null, output_tokens: response.usage?.output_tokens ?? 0,
      ringside: response.ringside,
    });
    const interrupted = response.incomplete_details?.reason === "interrupted";
    tell("end");
    if (interrupted && this.#resumeAlone) {
      const options = this.#resumeAlone;
      this.#resumeAlone = null;
      this.answer(options);
    }
    await this.refresh();
  }

  // A failed turn leaves the conversation as it was before: the question waits to be asked again.
  #failed(live, message) {
    if (live.asked?.text) this.items.length = live.before - 1;
    const asked = live.asked ?? { text: null, event: { type: "response.create", conversation: this.id, metadata: {}, input: [] } };
    this.pending = { ...asked, error: { message, code: "failed", retryAfterMs: 0 } };
    pending.save(this.id, this.pending);
  }

  get root() {
    return this.info ? rootOf(this.info) : this.id;
  }
}
