// Entry point of the page: creates its parts, follows the address, and connects the parts' events.
import * as api from "./api.js";
import { rootOf, siblingsOf } from "./list/branches.js";
import { Banner } from "./banner.js";
import { Composer } from "./composer/composer.js";
import { Conversation } from "./conversation.js";
import { announce, byId, el } from "./dom.js";
import { titleOf } from "./format.js";
import { icon } from "./icons.js";
import { listVerbs } from "./list/list_verbs.js";
import { titlesByModel } from "./list/titles.js";
import { MemoryPanel } from "./memory.js";
import { takeKeys } from "./keys.js";
import { drawRing } from "./ring.js";
import { dialogOpen } from "./dialogs/dialog.js";
import { openHelp } from "./dialogs/help.js";
import { openSettings, preferences, requestFields } from "./dialogs/settings.js";
import { signIn } from "./dialogs/sign_in.js";
import { Sidebar } from "./list/sidebar.js";
import { draft, load, save, theme } from "./store.js";
import { copySources } from "./text/copy.js";
import { Thread } from "./thread.js";
import { t, translateStatic } from "./strings.js";
import { loadFailed, welcome } from "./welcome.js";

const WIDE = matchMedia("(min-width: 900px)");
const LIST_INTERVAL_MS = 5_000; // while another conversation is running a turn
const RING_INTERVAL_MS = 250; // between two redraws of a growing memory ring
const LOOK_INTERVAL_MS = 10_000; // between two checks of the cache location

const EMPTY = { messages: () => [], live: null, pending: null, turns: new Map(), busy: false };

translateStatic();
const banner = new Banner();
let conversation = null;
let model = null;
let creating = false;
let looking = 0;
let unnamed = ""; // id of a conversation that was created here and has no answer yet

const sidebar = new Sidebar({
  create: () => go(""),
  rename: (entry) => verbs.rename(entry),
  pin: (entry) => verbs.pin(entry),
  archive: (entry) => verbs.archive(entry),
  move: (entry) => verbs.move(entry),
  share: (entry) => verbs.share(entry),
  saveSealed: (entry) => verbs.saveSealed(entry),
  saveMarkdown: (entry) => verbs.saveMarkdown(entry),
  saveJson: (entry) => verbs.saveJson(entry),
  remove: (entry) => verbs.remove(entry),
  importFile: (file) => verbs.importFile(file),
  settings: () => settings(),
  help: openHelp,
  theme: nextTheme,
  toggle: () => showSidebar(!sidebarShown()),
});
const thread = new Thread({
  regenerate, edit,
  proceed: () => conversation.answer(requestOptions()),
  retry: () => conversation.retry(),
  dismiss: () => {
    const { text, images } = conversation.pending;
    conversation.forget();
    if (text || images?.length) composer.put(text ?? "", images);
    thread.render();
  },
  open: go,
});
const composer = new Composer({ send, stop: () => conversation?.stop(), editLast: () => conversation && thread.editLast(), inView: () => tokensInView() });
const memory = new MemoryPanel({ toggle: () => showMemory(false) });
const top = makeTop();
const verbs = listVerbs(sidebar, {
  onFailure, go,
  onRenamed(renamed) {
    if (conversation?.id === renamed.id) conversation.info = renamed;
    showTop();
  },
  isOpen: (id) => conversation?.id === id,
});

// ---- the open conversation -----------------------------------------------------------------------------------------

const idOfAddress = () => {
  const found = /^#\/(conv_[A-Za-z0-9_-]{1,100})$/.exec(location.hash);
  return found ? found[1] : "";
};

function go(id) {
  const hash = id ? `#/${id}` : "#/";
  if (location.hash === hash) follow();
  else location.hash = hash;
  if (!WIDE.matches) showSidebar(false);
}

// `made`: the conversation named by the address, if it was just created.
function follow(made = null) {
  const id = idOfAddress();
  if (conversation?.id !== id || !id) {
    conversation?.close();
    const opened = id ? new Conversation(id, (what) => conversation === opened && onChange(what), made) : null;
    conversation = opened;
    byId("main").dataset.conversation = id;
    thread.show(conversation ?? EMPTY);
    composer.open(id || "new");
    sidebar.setCurrent(id);
  }
  showAll();
  composer.focus();
}

function onChange(what) {
  if (what === "messages" || what === "live") thread.render();
  if (what === "text") thread.grow();
  if (what === "end") {
    thread.settle();
    sidebar.refresh().catch(() => {});
    nameNew();
  }
  if (what === "live") {
    announce(t("The answer has started."));
    sidebar.refresh().catch(() => {});
  }
  if (what === "state") thread.showState();
  if (what === "text") lazily();
  else showAll();
}

// The conversation that this page has created is named after its first answer.
function nameNew() {
  if (unnamed !== conversation.id || !conversation.items.some(({ role }) => role === "assistant")) return;
  unnamed = "";
  if (titlesByModel(model)) verbs.nameByModel(conversation.id, conversation.items);
}

// The parts around a growing answer are not updated for every token.
function lazily() {
  looking ||= setTimeout(() => {
    looking = 0;
    showTop();
    memory.show(conversation);
  }, RING_INTERVAL_MS);
}

function showAll() {
  if (conversation?.info) sidebar.learn(conversation.info); // the title is that of the list
  showTop();
  showBanner();
  composer.setBusy(Boolean(conversation?.busy));
  composer.picker.open(conversation);
  composer.budget.instructions = conversation ? "" : preferences().instructions ?? "";
  memory.show(conversation);
  if (conversation?.info) {
    thread.setSiblings(siblingsOf(conversation.info, sidebar.family(rootOf(conversation.info))));
    thread.refreshStats();
  }
  const blank = !conversation;
  byId("main").classList.toggle("blank", blank);
  const failed = conversation?.loadError;
  if (blank) byId("thread").replaceChildren(welcome(model, (text) => composer.put(text)));
  else if (failed && !conversation.items.length) byId("thread").replaceChildren(loadFailed(failed, { create: () => go(""), reload: () => conversation.reconnect() }));
}

// ---- sending -------------------------------------------------------------------------------------------------------

function requestOptions(first = false) {
  const fields = { ...requestFields(first), ...composer.picker.fields() };
  if (conversation) {
    const next = load(`instructions.next.${conversation.id}`);
    if (next !== null) {
      fields.instructions = next.text;
      save(`instructions.next.${conversation.id}`, null);
    }
  }
  return fields;
}

// `truncated`: the model reads only the end of the message.
async function send(text, sent, { truncated = false, images = [] } = {}) {
  const cut = truncated ? { truncation: "auto" } : {};
  if (conversation) {
    if (conversation.busy) return;
    if (conversation.pending) {
      // Unsent text is never discarded silently.
      thread.toBottom();
      announce(t("The previous message was not sent. Retry or edit it first."));
      return;
    }
    conversation.send(text, { ...requestOptions(conversation.items.length === 0), ...cut }, images);
    sent();
    thread.toBottom();
    return;
  }
  if (creating) return;
  creating = true;
  try {
    const made = await api.createConversation({ title: titleOf(text || t("Image {n}", { n: 1 })) });
    sidebar.put(made);
    unnamed = made.id;
    draft.save(made.id, composer.text.value); // until the question is saved under the conversation's id
    sent();
    history.replaceState(null, "", `#/${made.id}`);
    follow(made);
    conversation.send(text, { ...requestOptions(true), ...cut }, images);
    composer.put("");
  } catch (error) {
    onFailure(error);
  } finally {
    creating = false;
  }
}

// Forks the conversation at an item, so that another answer or question becomes a separate version. Returns true on
// success.
async function fork(at) {
  const from = conversation;
  try {
    const id = await from.fork(at, sidebar.title(from.info));
    sidebar.put(await api.getConversation(id));
    if (conversation !== from) return false;
    go(id);
    if (conversation.id !== id) follow();
    return true;
  } catch (error) {
    onFailure(error);
    return false;
  }
}

async function regenerate(group) {
  if (await fork(group.start)) conversation.answer(requestOptions());
}

// Returns true if the message was sent; otherwise the editor must keep its text.
async function edit(group, text) {
  if (!(await fork(group.start))) return false;
  conversation.send(text, requestOptions(group.start === 0), group.images);
  composer.focus();
  return true;
}

const tokensInView = () => {
  const seen = conversation?.memory;
  return seen ? seen.pinned + seen.position - Math.max(seen.first_live, seen.pinned) : 0;
};

// ---- around the messages -------------------------------------------------------------------------------------------

function makeTop() {
  const button = (name, label, onclick) => el("button", { type: "button", class: "icon", "aria-label": label, title: label, onclick }, icon(name));
  const menu = button("menu", t("Show conversations"), () => showSidebar(!sidebarShown()));
  menu.classList.add("open-list");
  const title = el("h1", { class: "title" });
  const create = button("plus", t("New conversation"), () => go(""));
  create.classList.add("open-list");
  const ring = el("button", { type: "button", class: "ring-button", onclick: () => showMemory(!memory.open) });
  byId("top").append(menu, create, title, el("span", { class: "gap" }), ring);
  return { menu, title, ring };
}

function showTop() {
  const title = conversation?.info ? sidebar.title(conversation.info) : "";
  document.title = title ? `${title} · Ringside` : "Ringside";
  top.title.classList.toggle("unseen", !title);
  top.title.replaceChildren(el("bdi", {}, title || t("New conversation")));
  const seen = conversation?.memory;
  const written = conversation?.live?.tokens ?? 0;
  const live = seen ? Math.min(seen.memory_len, seen.position + written - Math.max(seen.first_live, seen.pinned)) : 0;
  const part = seen ? Math.max(0, Math.round((100 * live) / seen.memory_len)) : 0;
  top.ring.hidden = !conversation;
  top.ring.setAttribute("aria-label", t("Memory: {n} % of the window in use", { n: part }));
  top.ring.setAttribute("aria-expanded", String(memory.open));
  top.ring.title = t("Memory: {n} % of the window in use", { n: part });
  top.ring.replaceChildren(drawRing(seen, { written, small: true }), el("span", { "aria-hidden": "true" }, `${part} %`));
}

const showBanner = () => banner.show(conversation?.connection, {
  retry: () => conversation.retryNow(), take: () => conversation.reconnect(), signIn: askForKey,
});

function onFailure(error) {
  if (error.status === 401) askForKey();
  else banner.fail(error.message, showBanner);
}

async function askForKey() {
  if (dialogOpen()) return;
  if (!(await signIn())) return banner.show({ state: "ended", reason: "key" }, { signIn: askForKey });
  conversation?.reconnect();
  begin();
}

async function settings() {
  if (dialogOpen()) return;
  const open = conversation;
  const instructions = open && (load(`instructions.next.${open.id}`)?.text ?? open.info?.ringside.instructions);
  const changed = await openSettings(model, open && {
    instructions: instructions ?? "",
    apply: (text) => save(`instructions.next.${open.id}`, { text }),
  });
  if (!changed) return;
  conversation?.reconnect();
  begin();
}

function nextTheme() {
  const order = ["auto", "light", "dark"];
  const name = order[(order.indexOf(theme.load()) + 1) % order.length];
  theme.save(name);
  sidebar.setTheme(name);
}

const sidebarShown = () => !document.body.classList.contains(WIDE.matches ? "list-hidden" : "list-closed");
function showSidebar(shown) {
  if (WIDE.matches) {
    document.body.classList.toggle("list-hidden", !shown);
    save("list-hidden", !shown || null);
  } else {
    document.body.classList.toggle("list-closed", !shown);
    byId("main").inert = shown;
  }
  byId("scrim").hidden = WIDE.matches || !shown;
  byId("sidebar").inert = !shown;
  top.menu.setAttribute("aria-expanded", String(shown));
  if (shown && !WIDE.matches) sidebar.search.focus({ preventScroll: true });
}

function showMemory(shown) {
  byId("memory").hidden = !shown;
  document.body.classList.toggle("memory-shown", shown);
  save("memory-shown", shown || null);
  if (shown) conversation?.refresh();
  memory.show(conversation);
  showTop();
}

addEventListener("copy", copySources);
takeKeys({
  dialogOpen, help: openHelp, create: () => go(""), toggleList: () => showSidebar(!sidebarShown()), toggleMemory: () => showMemory(!memory.open),
  emptyBox: () => document.activeElement === composer.text && !composer.text.value,
  search() {
    showSidebar(true);
    sidebar.search.focus();
    sidebar.search.select();
  },
  escape() {
    if (!WIDE.matches && sidebarShown()) showSidebar(false);
    else if (!WIDE.matches && memory.open) showMemory(false);
    else if (conversation?.busy) conversation.stop();
    else return false;
    return true;
  },
});

// ---- startup -------------------------------------------------------------------------------------------------------

async function begin() {
  try {
    const models = await api.getModels();
    model = models[0];
    composer.setModels(models);
    verbs.finishRemovals();
    await sidebar.refresh();
    showAll();
  } catch (error) {
    if (error.status === 401) return void askForKey();
    // The server is starting or unreachable: retry until it answers.
    if (!conversation) onFailure(error);
    setTimeout(begin, Math.max(1500, error.retryAfterMs || 0));
    return;
  }
  if (!conversation) showBanner();
}

setInterval(() => {
  const others = [...sidebar.conversations.values()].some((one) => one.ringside.active_response_id && one.id !== conversation?.id);
  if (others && !document.hidden) sidebar.refresh().catch(() => {});
}, LIST_INTERVAL_MS);
setInterval(() => {
  if (memory.open && !document.hidden && conversation && !conversation.busy) conversation.refresh();
}, LOOK_INTERVAL_MS);
document.addEventListener("visibilitychange", () => document.hidden || sidebar.refresh().catch(() => {}));
addEventListener("hashchange", () => follow());
byId("scrim").addEventListener("click", () => showSidebar(false));
WIDE.addEventListener("change", () => {
  byId("main").inert = false;
  showSidebar(WIDE.matches ? !load("list-hidden") : false);
});

sidebar.setTheme(theme.load());
showSidebar(WIDE.matches ? !load("list-hidden") : false);
if (WIDE.matches && load("memory-shown")) showMemory(true);
follow();
begin();
