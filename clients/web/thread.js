// The messages on the screen. Finished messages are rendered once; the streaming answer grows in place.
import { announce, byId, copyText, el } from "./dom.js";
import { count, pace, seconds, tokens } from "./format.js";
import { icon } from "./icons.js";
import { LiveText } from "./text/live_text.js";
import { markdown } from "./text/markdown.js";
import { Reasoning } from "./reasoning.js";
import { imageRow } from "./text/images.js";
import { userText } from "./text/user_text.js";
import { toolResult } from "./tool_card.js";
import { firstInView, viewMark } from "./view_mark.js";
import { t } from "./strings.js";

const NEAR_BOTTOM_PX = 90;

const action = (name, label, onclick) =>
  el("button", { type: "button", class: "icon quiet", "aria-label": label, title: label, onclick }, icon(name, 17));

export class Thread {
  #conversation = null;
  #siblings = new Map();
  #live = null; // {element, body, writer, stats, before, reasoning}; before: the message being continued, or null
  #follow = true;
  #editing = null; // {start, element} of the message being edited

  // `act`: button handlers regenerate(group), edit(group, text), proceed(), retry(), dismiss(), open(id).
  constructor(act) {
    this.act = act;
    this.scroller = byId("scroll");
    this.list = byId("thread");
    this.latest = byId("latest");
    this.latest.prepend(icon("down", 16));
    this.latest.addEventListener("click", () => this.toBottom());
    this.scroller.addEventListener("scroll", () => this.#onScroll(), { passive: true });
    const resized = new ResizeObserver(() => {
      if (this.#follow) this.#jump();
      this.#showLatest();
    });
    resized.observe(this.list);
    resized.observe(this.scroller);
  }

  // Shows a conversation from its beginning; null for the empty page.
  show(conversation) {
    this.#conversation = conversation;
    this.#siblings = new Map();
    this.#editing = null;
    this.#follow = true;
    this.render();
  }

  setSiblings(siblings) {
    const key = (map) => JSON.stringify([...map].map(([at, { index, versions }]) => [at, index, versions.map(({ id }) => id)]));
    if (key(siblings) === key(this.#siblings)) return;
    this.#siblings = siblings;
    for (const group of this.#conversation.messages()) {
      const buttons = this.list.querySelector(`[data-start="${group.start}"] > .foot > .buttons`);
      buttons?.querySelector(".versions")?.remove();
      buttons?.prepend(...this.#arrows(group));
    }
  }

  render() {
    const conversation = this.#conversation;
    this.#live?.writer.stop();
    this.#live = null;
    const groups = conversation.messages();
    const live = conversation.live;
    const last = groups.at(-1);
    const goesOn = live && last?.role === "assistant";
    // Keeps text that is being edited.
    const edited = this.#editing && groups.some(({ start }) => start === this.#editing.start) ? this.#editing : null;
    this.#editing = edited;
    const elements = groups.map((group) => {
      if (goesOn && group === last) return null;
      return group.start === edited?.start ? edited.element : this.#message(group, group === last);
    });
    if (live) elements.push(this.#liveMessage(goesOn ? last : null));
    if (conversation.pending) elements.push(...this.#pendingMessage());
    else if (!live && last?.role === "user") elements.push(this.#unanswered());
    this.list.replaceChildren(...elements.filter(Boolean));
    this.#markView();
    if (this.#live) this.#write(live);
    this.#jump();
  }

  // The answer has grown.
  grow() {
    const { live } = this.#conversation;
    if (!this.#live || !live) return this.render();
    this.#write(live);
    this.#live.element.classList.remove("waits");
  }

  #write(live) {
    const { before, writer, body } = this.#live;
    writer.set((before?.text ?? "") + live.text);
    const text = (before?.reasoning ?? "") + live.reasoning;
    if (!text) return;
    if (!this.#live.reasoning) body.before((this.#live.reasoning = new Reasoning()).element);
    const streams = !live.text && !live.reasonedMs;
    this.#live.reasoning.set(text, { live: streams, ms: live.reasonedMs, open: streams });
  }

  showState() {
    const { live } = this.#conversation;
    if (this.#live && live) this.#showPace(live);
  }

  // The answer has ended: keeps its element and adds the buttons.
  settle() {
    const conversation = this.#conversation;
    const groups = conversation.messages();
    const last = groups.at(-1);
    if (!this.#live || conversation.pending || last?.role !== "assistant") return this.render();
    const { element, writer, reasoning } = this.#live;
    this.#live = null;
    writer.set(last.text);
    writer.finish();
    element.replaceWith(this.#message(last, true, element.querySelector(".body"), reasoning));
    announce(t("The answer is complete."));
  }

  // Marks the message from which on the model sees the conversation.
  #markView() {
    const first = firstInView(this.#conversation.memory);
    const group = first && this.#conversation.messages().find(({ ids }) => ids.includes(first.id));
    const message = group && (first.cut || group.start > 0) ? this.list.querySelector(`[data-start="${group.start}"]`) : null;
    const mark = this.list.querySelector(".view-mark");
    if (message && mark?.nextElementSibling === message && mark.dataset.cut === String(first.cut)) return;
    mark?.remove();
    message?.before(viewMark(first.cut));
  }

  refreshStats() {
    if (this.#live) return;
    this.#markView();
    for (const group of this.#conversation.messages()) {
      const stats = this.list.querySelector(`[data-start="${group.start}"] .stats`);
      if (stats && group.role === "assistant") stats.replaceChildren(...this.#stats(group));
    }
  }

  editLast() {
    const group = this.#conversation?.messages().findLast(({ role }) => role === "user");
    if (group) this.#edit(group);
  }

  toBottom() {
    this.#follow = true;
    this.#jump();
  }

  #onWritten() {
    this.#jump();
    if (this.#live && this.#conversation.live) this.#showPace(this.#conversation.live);
  }

  #jump() {
    // A greeting is read from its beginning.
    const greeting = this.list.firstElementChild?.matches(".welcome");
    if (this.#follow) this.scroller.scrollTop = greeting ? 0 : this.scroller.scrollHeight;
  }

  get #atBottom() {
    const { scrollTop, scrollHeight, clientHeight } = this.scroller;
    return scrollHeight - scrollTop - clientHeight < NEAR_BOTTOM_PX;
  }

  #onScroll() {
    this.#follow = this.#atBottom;
    this.#showLatest();
  }

  // Only where there is something below.
  #showLatest() {
    this.latest.hidden = this.#follow || this.#atBottom;
  }

  #message(group, isLast, body = null, reasoning = null) {
    const said = { assistant: t("Answer"), user: t("You"), tool: t("Tool") }[group.role] ?? t("System");
    const article = el("article", { class: `message ${group.role === "tool" ? "result" : group.role}`, "data-start": group.start, "aria-label": said },
      el("h2", { class: "unseen" }, group.role === "user" ? t("You said") : said));
    if (group.role === "assistant") {
      if (group.reasoning) article.append(this.#reasoning(group, reasoning ?? new Reasoning()));
      article.append(body ?? el("div", { class: "body prose" }, markdown(group.text)));
      if (!group.complete) article.append(this.#cut(group, isLast));
      article.append(this.#foot(group));
    } else {
      const content = group.role === "tool" ? [toolResult(group)] : group.role === "user" ? userText(group.text) : [group.text];
      const text = group.text || group.role === "tool" ? el("div", { class: "body" }, ...content) : null;
      article.append(...[imageRow(group.images), body ?? text, this.#foot(group)].filter(Boolean));
    }
    return article;
  }

  #foot(group) {
    const answer = group.role === "assistant";
    const copy = action("copy", t("Copy"), () => copyText(group.text, copy, { idle: () => [icon("copy", 17)], done: () => [icon("check", 17)] }));
    const buttons = el("div", { class: "buttons" }, ...this.#arrows(group), copy,
      answer ? action("again", t("Answer again"), () => this.act.regenerate(group)) : group.role === "user" ? action("edit", t("Edit"), () => this.#edit(group)) : null);
    return el("div", { class: "foot" }, buttons, answer ? el("div", { class: "stats" }, ...this.#stats(group)) : null);
  }

  #arrows(group) {
    const found = this.#siblings.get(group.start);
    if (!found) return [];
    const { index, versions } = found;
    const go = (step, name, label) => {
      const button = action(name, label, () => this.act.open(versions[index + step].id));
      button.disabled = !versions[index + step];
      return button;
    };
    return [el("div", { class: "versions", role: "group", "aria-label": t("Versions") }, go(-1, "left", t("Earlier version")),
      el("span", { "aria-label": t("Version {n} of {all}", { n: index + 1, all: versions.length }) , role: "img" }, `${index + 1}/${versions.length}`), go(1, "right", t("Later version")))];
  }

  #reasoning(group, block) {
    const ms = this.#turnsOf(group).reduce((sum, { ringside }) => sum + (ringside?.reasoning_ms ?? 0), 0);
    block.set(group.reasoning, { live: false, ms, open: false });
    return block.element;
  }

  #turnsOf(group) {
    return group.ids.flatMap((id) => this.#conversation.turns.get(id) ?? []);
  }

  // Statistics of an answer's turns: speed, and cache use.
  #stats(group) {
    const turns = this.#turnsOf(group);
    const first = turns[0]?.ringside;
    if (!first) return [];
    const rate = turns.at(-1).ringside.tokens_per_s;
    const parts = [];
    if (rate) parts.push(el("span", {}, t("{n} tokens/s", { n: pace(rate) })));
    parts.push(el("span", { title: t("Time to the first token") }, t("first after {time}", { time: seconds(first.ttft_ms) })));
    parts.push(el("span", { title: t("Tokens from the cache ({where}), and tokens computed for this turn", { where: first.source }) },
      t("{cached} cached, {computed} computed", { cached: count(first.tokens_reused), computed: count(first.tokens_computed) })));
    return parts;
  }

  #cut(group, isLast) {
    const turn = this.#turnsOf(group).at(-1);
    const unbegun = !group.text && group.reasoning ? t("The model was still thinking.") + " " : "";
    const why = unbegun + ({
      interrupted: t("The server stopped in the middle of this answer."),
      max_output_tokens: t("The answer reached its maximum length."),
      session_full: t("The conversation is full."),
      detached: t("The answer was paused because no client was connected."),
      repetition: t("The answer repeated itself, so it was stopped."),
      turn_timeout: t("The answer took longer than the server allows."),
    }[turn?.incomplete_reason] ?? (turn?.status === "cancelled" ? t("You stopped this answer.") : t("This answer was cut short.")));
    return el("p", { class: "cut" }, why, isLast
      ? el("button", { type: "button", class: "button small", onclick: () => this.act.proceed() }, icon("forward", 15), t("Continue")) : null);
  }

  #unanswered() {
    return el("p", { class: "cut alone" }, t("This message has no answer yet."),
      el("button", { type: "button", class: "button small", onclick: () => this.act.proceed() }, icon("again", 15), t("Answer")));
  }

  #liveMessage(group) {
    const { live } = this.#conversation;
    const stats = el("div", { class: "stats", "aria-hidden": "true" });
    const body = el("div", { class: "body prose" });
    const element = el("article", { class: `message assistant live${live.text || live.reasoning ? "" : " waits"}`, "aria-label": t("Answer"), "aria-busy": "true", "data-start": group?.start ?? -1 },
      el("h2", { class: "unseen" }, t("Answer")), body, el("div", { class: "pulse", "aria-hidden": "true" }), el("div", { class: "foot" }, stats));
    this.#live = { element, body, stats, before: group, reasoning: null, writer: new LiveText(body, () => this.#onWritten()) };
    this.#showPace(live);
    return element;
  }

  #showPace(live) {
    let text = "";
    if (live.queued) text = t("Waiting in the queue: position {n}", { n: count(live.queued) });
    else if (live.firstAt && live.tokens > 4) {
      const rate = ((live.tokens - 1) * 1000) / (performance.now() - live.firstAt);
      text = `${tokens(live.tokens)}, ${t("{n} tokens/s", { n: pace(rate) })}`;
    }
    if (this.#live.stats.textContent !== text) this.#live.stats.textContent = text;
  }

  #pendingMessage() {
    const { pending } = this.#conversation;
    const elements = [];
    if (pending.text !== null) {
      elements.push(el("article", { class: "message user pending", "aria-label": t("You") }, el("h2", { class: "unseen" }, t("You said")),
        imageRow(pending.images), pending.text ? el("div", { class: "body" }, ...userText(pending.text)) : null));
    }
    if (pending.error) elements.push(this.#error(pending));
    else elements.push(el("article", { class: "message assistant waits", "aria-label": t("Answer"), "aria-busy": "true" }, el("div", { class: "pulse", "aria-hidden": "true" })));
    return elements;
  }

  // A message that is too long, or lost its images, can only be changed: another attempt would fail in the same way.
  #error({ error, text }) {
    const tooLong = error.code === "context_length_exceeded" && text !== null, final = tooLong || error.code === "images_lost";
    return el("div", { class: "failed", role: "alert" }, icon("warn"), el("p", {}, tooLong ? t("This message has more tokens than the model reads at once.") : error.message),
      el("div", { class: "buttons" }, final ? null
        : el("button", { type: "button", class: "button small", onclick: () => this.act.retry() }, icon("again", 15), t("Try again")),
        el("button", { type: "button", class: "button small plain", onclick: () => this.act.dismiss() }, text === null ? t("Dismiss") : t("Edit"))));
  }

  #edit(group) {
    const article = this.list.querySelector(`[data-start="${group.start}"]`);
    if (!article) return;
    this.#editing = { start: group.start, element: article };
    const area = el("textarea", { "aria-label": t("Edit your message"), rows: "2" });
    area.value = group.text;
    const done = () => {
      this.#editing = null;
      this.render();
    };
    // After sending, another conversation is shown.
    const send = async () => {
      if ((!area.value.trim() && !group.images?.length) || area.readOnly) return;
      area.readOnly = true;
      if (!(await this.act.edit(group, area.value))) area.readOnly = false;
    };
    area.addEventListener("keydown", (event) => {
      if (event.key === "Escape") {
        event.stopPropagation();
        done();
        byId("composer-text").focus();
      } else if (event.key === "Enter" && !event.shiftKey && !event.isComposing) {
        event.preventDefault();
        send();
      }
    });
    article.classList.add("editing");
    article.replaceChildren(imageRow(group.images) ?? "", area, el("div", { class: "buttons" },
      el("p", { class: "hint" }, t("The original stays: you can switch between the versions.")),
      el("button", { type: "button", class: "button small plain", onclick: done }, t("Cancel")),
      el("button", { type: "button", class: "button small primary", onclick: send }, t("Send"))));
    area.focus();
    area.setSelectionRange(area.value.length, area.value.length);
  }
}
