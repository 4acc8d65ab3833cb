// A conversation that was shared by a link: to read, without a key. The link's secret is the fragment of the address,
// which browsers send to no server; it goes to this server in a header.
import { wholeItems } from "./api.js";
import { announce, byId, el } from "./dom.js";
import { markdown } from "./text/markdown.js";
import { t, translateStatic } from "./strings.js";
import { toolResult } from "./tool_card.js";
import { imageRow } from "./text/images.js";
import { userText } from "./text/user_text.js";

const AGAIN_MS = 4_000; // while an answer is being written

const token = () => location.hash.slice(1);

async function page(after) {
  const options = { headers: { Authorization: `Bearer ${token()}` }, cache: "no-store", credentials: "omit", referrerPolicy: "no-referrer" };
  const response = await fetch(`/v1/shared?order=asc&limit=100${after}`, options);
  const answer = await response.json().catch(() => ({}));
  if (!response.ok) throw Object.assign(new Error(answer.error?.message ?? ""), { status: response.status });
  return answer;
}

async function read() {
  const items = [];
  for (let after = ""; ; ) {
    const shared = await page(after);
    items.push(...shared.items.data);
    if (!shared.items.has_more) return { ...shared, items: wholeItems(items) };
    after = `&after=${encodeURIComponent(shared.items.last_id)}`;
  }
}

function message({ role, text, images, tool }) {
  const said = { assistant: t("Answer"), user: t("You"), tool: t("Tool") }[role];
  const content = role === "assistant" ? [markdown(text)] : role === "tool" ? [toolResult({ text, tool })] : userText(text);
  const label = role === "user" ? t("Question") : said;
  return el("article", { class: `message ${role === "tool" ? "result" : role}`, "aria-label": label }, el("h2", { class: "unseen" }, label),
    imageRow(images), text ? el("div", { class: role === "assistant" ? "body prose" : "body" }, ...content) : null);
}

function fail(title, text, retry) {
  byId("thread").replaceChildren(el("div", { class: "welcome" }, el("h2", {}, title), el("p", {}, text),
    retry ? el("div", { class: "ideas" }, el("button", { type: "button", onclick: show }, t("Try again"))) : null));
  announce(title);
}

async function show() {
  const asked = token();
  try {
    const { title, items, answering } = await read();
    if (asked !== token()) return;
    document.title = title ? `${title} · Ringside` : "Ringside";
    byId("shared-title").replaceChildren(el("bdi", {}, title || t("Untitled")));
    const shown = items.filter(({ role, text, images }) => (text || images.length) && ["user", "assistant", "tool"].includes(role));
    byId("thread").replaceChildren(...shown.map(message));
    if (answering) setTimeout(() => asked === token() && show(), AGAIN_MS);
  } catch (error) {
    if (error.status === 404) fail(t("This link does not work"), t("It was revoked, it has expired, or the conversation was deleted."), false);
    else fail(t("Could not load this conversation"), error.message || t("The server cannot be reached."), true);
  }
}

translateStatic();
addEventListener("hashchange", show);
show();
