// The page without a conversation: a greeting, the facts about the model, and examples; and the page of a conversation that
// cannot be shown.
import { el } from "./dom.js";
import { count } from "./format.js";
import { drawRing } from "./ring.js";
import { t } from "./strings.js";

const SMALL_BILLIONS = 3;

// Billions of parameters according to the model's name; null if it does not contain them.
export function billionsOf(name) {
  const found = /(?:^|[^a-z0-9.])(\d+(?:\.\d+)?)(m|b)(?![a-z0-9])/i.exec(name);
  return found ? Number(found[1]) / (found[2].toLowerCase() === "m" ? 1000 : 1) : null;
}
export const isSmall = (name) => (billionsOf(name) ?? Infinity) < SMALL_BILLIONS;

function facts(model) {
  if (!model) return [el("p", {}, t("Conversations are stored on the server and continue where you left off."))];
  const reads = el("p", {}, t("{model} reads the newest {n} tokens of a conversation. Earlier messages are kept here.", { model: model.id, n: count(model.max_model_len) }));
  return isSmall(model.id) ? [reads, el("p", { class: "small-model" }, t("It is a small model: quick, and often wrong. A larger one gives better answers: ringside-server --model FILE."))] : [reads];
}

// `put(text)` writes an example into the message box.
export function welcome(model, put) {
  const ideas = [t("Help me write a friendly e-mail to my landlord about a broken heater."), t("Explain compound interest with an example."), t("Plan a week of simple dinners.")];
  return el("div", { class: "welcome" }, drawRing({ pinned: 8, memory_len: 92, first_live: 8, position: 71, messages: [
    { begin: 8, end: 20, role: "user" }, { begin: 20, end: 41, role: "assistant" }, { begin: 41, end: 47, role: "user" }, { begin: 47, end: 71, role: "assistant" }] }),
    el("h2", {}, t("What is on your mind?")), ...facts(model),
    el("div", { class: "ideas" }, ...ideas.map((text) => el("button", { type: "button", onclick: () => put(text) }, text))));
}

// `act`: create(), reload().
export function loadFailed(error, act) {
  const gone = error.status === 404;
  return el("div", { class: "welcome" }, el("h2", {}, gone ? t("Conversation not found") : t("Could not load this conversation")), el("p", {}, error.message),
    el("div", { class: "ideas" }, gone
      ? el("button", { type: "button", onclick: act.create }, t("Start a new conversation"))
      : el("button", { type: "button", onclick: act.reload }, t("Try again"))));
}
