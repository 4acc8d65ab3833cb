// The links that share a conversation: makes, shows and revokes them. A link is shown once, when it is made.
import * as api from "../api.js";
import { copyText, el } from "../dom.js";
import { dateOf } from "../format.js";
import { icon } from "../icons.js";
import { t } from "../strings.js";
import { show } from "./dialog.js";

const DAY_S = 86_400;
const TERMS = () => [[DAY_S, t("One day")], [7 * DAY_S, t("One week")], [30 * DAY_S, t("30 days")], [0, t("Until it is revoked")]];

// `changed(number)` is called with the number of links.
export function openShare({ id }, changed) {
  const problem = el("p", { class: "problem", role: "alert" });
  const list = el("ul", { class: "links" });
  const made = el("div", { class: "field made", hidden: true });
  const term = el("select", { id: "share-term" }, ...TERMS().map(([value, name]) => el("option", { value }, name)));
  term.value = String(7 * DAY_S);
  const guarded = (work) => async () => {
    problem.textContent = "";
    try {
      await work();
    } catch (error) {
      problem.textContent = error.message;
    }
  };
  async function refresh() {
    const links = await api.listShares(id);
    changed(links.length);
    list.replaceChildren(...links.map((link) => el("li", {},
      el("span", {}, t("Made on {date}", { date: dateOf(link.created_at) }), el("br"),
        el("span", { class: "hint" }, link.expires_at ? t("Expires on {date}", { date: dateOf(link.expires_at) }) : t("Until it is revoked"))),
      el("button", { type: "button", class: "button small", onclick: guarded(async () => {
        await api.revokeShare(id, link.id);
        made.hidden = true;
        await refresh();
      }) }, t("Revoke")))));
  }
  const make = guarded(async () => {
    const share = await api.createShare(id, Number(term.value));
    const field = el("input", { type: "text", readonly: true, id: "share-link", "aria-label": t("Link") });
    field.value = new URL(share.path, location.href).href;
    const copy = el("button", { type: "button", class: "icon", "aria-label": t("Copy"), onclick: () => copyText(field.value, copy, { idle: () => [icon("copy", 17)], done: () => [icon("check", 17)] }) }, icon("copy", 17));
    made.replaceChildren(field, copy);
    made.hidden = false;
    field.select();
    await refresh();
  });
  guarded(refresh)();
  return show(t("Share"), el("div", { class: "form" },
    el("p", { class: "explains" }, t("Whoever has the link can read this conversation, and what is added to it, until the link expires or is revoked. The system prompt is not shown.")),
    el("div", { class: "field" }, el("label", { for: "share-term" }, t("The link works for")), term),
    el("button", { type: "button", class: "button primary center", "data-first": true, onclick: make }, t("Create a link")), made, problem, list), { className: "small" });
}
