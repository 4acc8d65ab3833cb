// The panel next to the conversation: its memory as a ring, the location of its cache, and the cache use of each
// answer.
import { byId, el } from "./dom.js";
import { count, plural, seconds, short } from "./format.js";
import { icon } from "./icons.js";
import { drawRing } from "./ring.js";

const TIERS = [
  ["slot", "Slot", "ready: the next turn starts at once"],
  ["host", "Host", "in memory: restored in milliseconds"],
  ["disk", "Disk", "on disk: restored in tenths of a second"],
];
const SOURCES = {
  new: "new", slot: "from its slot", host: "from host memory", disk: "from disk", recomputed: "recomputed",
};
const MOST_TURNS = 40;

export class MemoryPanel {
  constructor(act) {
    this.panel = byId("memory");
    this.figure = el("div", { class: "figure" });
    this.legend = el("dl", { class: "legend" });
    this.tiers = el("ol", { class: "tiers", "aria-label": "Where the cache is" });
    this.tierNote = el("p", { class: "tier-note" });
    this.turns = el("ol", { class: "turns" });
    this.empty = el("p", { class: "none" }, "After the first message, this shows what the model still sees and what each answer cost.");
    this.content = el("div", { class: "memory-content" }, this.figure, this.legend, el("h3", {}, "Cache"), this.tiers, this.tierNote,
      el("h3", {}, "Turns"), el("p", { class: "key" }, el("span", { class: "found" }, "cached"), el("span", { class: "computed" }, "computed")), this.turns);
    this.panel.append(el("header", {}, el("h2", {}, "Memory"),
      el("button", { type: "button", class: "icon", "aria-label": "Hide the memory", onclick: act.toggle }, icon("close"))), this.empty, this.content);
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
      el("p", { class: "centre" }, el("strong", {}, short(pinned + live)), el("span", {}, `of ${count(memory.memory_len + memory.pinned)}`), el("span", {}, "tokens in view")));
    const row = (kind, name, tokens, title) => el("div", { title }, el("dt", {}, el("i", { class: `mark ${kind}` }), name), el("dd", {}, count(tokens)));
    this.legend.replaceChildren(
      row("pinned", "Pinned", pinned, "The system message: it never leaves the window"),
      row("answer", "In view", live, "What the model sees of the conversation"),
      row("gone", "Left the window", gone, "Stored and shown, but no longer seen by the model"),
      row("free", "Free", Math.max(0, memory.memory_len - live), "Room before the oldest messages leave the window"));
  }

  #showTier(cache) {
    const at = TIERS.findIndex(([name]) => name === cache);
    if (this.tier === cache && this.tiers.firstChild) return;
    this.tier = cache;
    this.tiers.replaceChildren(...TIERS.map(([, label], i) => el("li", { class: i === at ? "here" : null, "aria-current": i === at && "true" }, label)));
    this.tierNote.textContent = at < 0 ? "Not cached: the next turn reads the conversation again." : `The cache is ${TIERS[at][2]}.`;
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
      const note = left > 0 ? el("span", { class: "gone-note" }, `${plural(left, "message")} left the window`) : null;
      return el("li", {}, el("div", { class: "turn-head" }, el("span", {}, `${SOURCES[ringside.source] ?? ringside.source}${restored}`), el("span", {}, plural(output, "token"))),
        bar, el("div", { class: "turn-foot" }, el("span", {}, `${count(found)} cached`), el("span", {}, `${count(computed)} computed`)), note);
    }));
  }
}
