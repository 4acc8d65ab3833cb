// The panel next to the conversation: its memory as a ring, the location of its cache, and the cache use of each
// answer.
import { byId, el } from "./dom.js";
import { count, seconds, short, tokens } from "./format.js";
import { icon } from "./icons.js";
import { drawRing } from "./ring.js";
import { counted, t } from "./strings.js";

const TIERS = [
  ["slot", t("Slot"), t("ready: the next turn starts at once")],
  ["host", t("Host"), t("in memory: restored in milliseconds")],
  ["disk", t("Disk"), t("on disk: restored in tenths of a second")],
];
const SOURCES = {
  new: t("new"), slot: t("from its slot"), host: t("from host memory"), disk: t("from disk"), recomputed: t("recomputed"),
};
const MOST_TURNS = 40;

export class MemoryPanel {
  constructor(act) {
    this.panel = byId("memory");
    this.figure = el("div", { class: "figure" });
    this.legend = el("dl", { class: "legend" });
    this.tiers = el("ol", { class: "tiers", "aria-label": t("Where the cache is") });
    this.tierNote = el("p", { class: "tier-note" });
    this.turns = el("ol", { class: "turns" });
    this.empty = el("p", { class: "none" }, t("After the first message, this shows what the model still sees and what each answer cost."));
    this.content = el("div", { class: "memory-content" }, this.figure, this.legend, el("h3", {}, t("Cache")), this.tiers, this.tierNote,
      el("h3", {}, t("Turns")), el("p", { class: "key" }, el("span", { class: "found" }, t("cached")), el("span", { class: "computed" }, t("computed"))), this.turns);
    this.panel.append(el("header", {}, el("h2", {}, t("Memory")),
      el("button", { type: "button", class: "icon", "aria-label": t("Hide the memory"), onclick: act.toggle }, icon("close"))), this.empty, this.content);
  }

  get open() {
    return !this.panel.hidden;
  }

  show(conversation) {
    if (!this.open) return;
    const memory = conversation?.memory;
    const said = Boolean(memory && (memory.position || conversation.live));
    this.empty.hidden = said;
    this.content.hidden = !said;
    if (!said) return;
    const written = conversation.live?.tokens ?? 0;
    this.#showRing(memory, written);
    this.#showTier(conversation.live ? "slot" : memory.cache);
    if (this.shown !== memory) this.#showTurns(memory);
    this.shown = memory;
  }

  #showRing(memory, written) {
    const end = memory.position + written;
    const pinned = Math.min(memory.pinned, end);
    const firstLive = Math.max(memory.first_live, memory.pinned, end - memory.memory_len);
    const live = Math.max(0, end - firstLive);
    const gone = Math.max(0, firstLive - memory.pinned);
    this.figure.replaceChildren(drawRing(memory, { written }),
      el("p", { class: "centre" }, el("strong", {}, short(pinned + live)), el("span", {}, t("of {n}", { n: count(memory.memory_len + memory.pinned) })), el("span", {}, t("tokens in view"))));
    const row = (kind, name, tokens, title) => el("div", { title }, el("dt", {}, el("i", { class: `mark ${kind}` }), name), el("dd", {}, count(tokens)));
    this.legend.replaceChildren(
      row("pinned", t("Pinned"), pinned, t("The system message: it never leaves the window")),
      row("answer", t("In view"), live, t("What the model sees of the conversation")),
      row("gone", t("Left the window"), gone, t("Stored and shown, but no longer seen by the model")),
      row("free", t("Free"), Math.max(0, memory.memory_len - live), t("Room before the oldest messages leave the window")));
  }

  #showTier(cache) {
    const at = TIERS.findIndex(([name]) => name === cache);
    if (this.tier === cache && this.tiers.firstChild) return;
    this.tier = cache;
    this.tiers.replaceChildren(...TIERS.map(([, label], i) => el("li", { class: i === at ? "here" : null, "aria-current": i === at && "true" }, label)));
    this.tierNote.textContent = at < 0 ? t("Not cached: the next turn reads the conversation again.") : t("The cache is {where}.", { where: TIERS[at][2] });
  }

  #showTurns(memory) {
    // Evictions are cumulative; a turn's share is the difference.
    const gone = memory.turns.map(({ ringside }, i) => ringside.messages_evicted - (memory.turns[i - 1]?.ringside.messages_evicted ?? 0));
    const turns = memory.turns.map((turn, i) => ({ ...turn, gone: gone[i] })).slice(-MOST_TURNS).reverse();
    const most = Math.max(1, ...turns.map(({ ringside }) => ringside.tokens_reused + ringside.tokens_computed));
    this.turns.replaceChildren(...turns.map(({ ringside, output_tokens: output, gone: left }) => {
      const found = ringside.tokens_reused;
      const computed = ringside.tokens_computed;
      const bar = el("div", { class: "bar", "aria-hidden": "true" });
      for (const [name, tokens] of [["found", found], ["computed", computed]]) {
        if (!tokens) continue;
        const part = el("i", { class: name });
        part.style.width = `${Math.max((100 * tokens) / most, 1.5)}%`;
        bar.append(part);
      }
      const restored = ringside.restore_ms >= 1 ? `, ${seconds(ringside.restore_ms)}` : "";
      const note = left > 0 ? el("span", { class: "gone-note" }, counted(left, "{n} message left the window", "{n} messages left the window", { n: count(left) })) : null;
      return el("li", {}, el("div", { class: "turn-head" }, el("span", {}, `${SOURCES[ringside.source] ?? ringside.source}${restored}`), el("span", {}, tokens(output))),
        bar, el("div", { class: "turn-foot" }, el("span", {}, t("{n} cached", { n: count(found) })), el("span", {}, t("{n} computed", { n: count(computed) }))), note);
    }));
  }
}
