// Where the model's view of a conversation begins: earlier messages are stored and shown, but no longer read.
import { el } from "./dom.js";
import { t } from "./strings.js";

// The first message that the model sees: {id, cut}, where `cut` means only its end; null if it sees all. `memory`: the
// server's report.
export function firstInView(memory) {
  if (!memory || memory.first_live <= memory.pinned) return null;
  const first = memory.messages.find(({ begin, end }) => begin >= memory.pinned && end > memory.first_live);
  return first ? { id: first.id, cut: first.begin < memory.first_live } : null;
}

export const viewMark = (cut) => el("p", { class: "view-mark", "data-cut": String(cut) },
  el("span", {}, cut ? t("The model sees only the end of this message, and the later ones.") : t("The model sees the conversation from here on.")));
