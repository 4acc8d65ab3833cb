// Where the model's view of a conversation begins: earlier messages are stored and shown, but no longer read.
import { el } from "./dom.js";
import { t } from "./strings.js";

// Id of the first message that the model sees; null if it sees all. `memory`: the server's report.
export function firstInView(memory) {
  if (!memory || memory.first_live <= memory.pinned) return null;
  return memory.messages.find(({ begin, end }) => begin >= memory.pinned && end > memory.first_live)?.id ?? null;
}

export const viewMark = () => el("p", { class: "view-mark" }, el("span", {}, t("The model sees the conversation from here on.")));
