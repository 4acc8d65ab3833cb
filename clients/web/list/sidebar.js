// The list of conversations. All versions of a conversation are one entry, named by the first version.
import * as api from "../api.js";
import { laterUsed, rootOf } from "./branches.js";
import { byId, el } from "../dom.js";
import { count, period } from "../format.js";
import { icon } from "../icons.js";
import { load, save } from "../store.js";
import { TextSearch } from "./text_search.js";
import { t } from "../strings.js";

const SHORTEST_QUERY = 3;
const SEARCH_PAUSE_MS = 300;

export class Sidebar {
  conversations = new Map(); // id -> conversation object, with its `order` of creation
  loaded = false;
  #query = "";
  #current = "";
  #newest = 0;
  #heard = 0; // counts updates received outside a list refresh; these are newer than a list being loaded
  #refreshes = 0; // only the newest refresh counts
  #removed = new Set();
  #learned = null;
  #menu = null;
  #open = new Set(load("open", [])); // keys of the sections that are unfolded
  #texts = new TextSearch();
  #found = []; // {id, excerpt}: matches in messages
  #searching = false;
  #searchTimer = 0;

  // `act`: open(id), create(), importFile(file), settings(), help(), theme(), toggle(), and the verbs of
  // list_verbs.js with an entry.
  constructor(act) {
    this.act = act;
    this.search = el("input", { type: "search", id: "search", placeholder: t("Search"), "aria-label": t("Search conversations"), autocomplete: "off", spellcheck: "false" });
    this.search.addEventListener("input", () => {
      this.#query = this.search.value.trim().toLowerCase();
      this.#found = [];
      this.render();
      this.#searchTexts();
    });
    this.search.addEventListener("keydown", (event) => this.#searchKey(event));
    this.list = el("div", { class: "list" });
    this.file = el("input", { type: "file", class: "unseen", accept: ".ringside,.json,.zip", tabindex: "-1", "aria-hidden": "true", onchange: () => {
      if (this.file.files[0]) act.importFile(this.file.files[0]);
      this.file.value = "";
    } });
    const tool = (name, label, onclick) => el("button", { type: "button", class: "icon", "aria-label": label, title: label, onclick }, icon(name));
    this.themeButton = tool("auto", t("Theme"), () => act.theme());
    byId("sidebar").append(
      el("div", { class: "brand" }, el("p", {}, "Ringside"), tool("panel", t("Hide conversations"), () => act.toggle())),
      el("button", { type: "button", class: "new", onclick: () => act.create() }, icon("plus"), t("New conversation")),
      el("div", { class: "search" }, icon("search", 16), this.search), this.list, this.file,
      el("div", { class: "tools" }, tool("settings", t("Settings"), () => act.settings()), this.themeButton,
        tool("load", t("Import conversations"), () => this.file.click()), tool("help", t("Keyboard"), () => act.help())));
    this.list.addEventListener("keydown", (event) => this.#listKey(event));
    document.addEventListener("click", (event) => this.#menu && !this.#menu.contains(event.target) && this.#closeMenu());
    document.addEventListener("keydown", (event) => {
      if (event.key !== "Escape" || !this.#menu) return;
      event.stopPropagation();
      this.#closeMenu(true);
    }, true);
  }

  setTheme(name) {
    this.themeButton.replaceChildren(icon({ light: "sun", dark: "moon", auto: "auto" }[name]));
    this.themeButton.setAttribute("aria-label", t("Theme: {name}", { name: { light: t("light"), dark: t("dark"), auto: t("system") }[name] }));
    this.themeButton.title = this.themeButton.getAttribute("aria-label");
  }

  // Loads the list page by page; the old entries stay visible meanwhile.
  async refresh() {
    const refresh = ++this.#refreshes;
    const begun = this.#heard;
    const newer = (id) => this.conversations.get(id)?.heard > begun;
    const seen = new Set();
    let order = 0;
    for await (const page of api.listConversations()) {
      if (refresh !== this.#refreshes) return;
      for (const conversation of page) {
        const { id } = conversation;
        conversation.order = --order;
        seen.add(id);
        if (newer(id)) this.conversations.get(id).order = order;
        else if (!this.#removed.has(id)) this.conversations.set(id, conversation);
      }
      this.render();
    }
    if (refresh !== this.#refreshes) return;
    for (const id of [...this.conversations.keys()]) if (!seen.has(id) && !newer(id)) this.conversations.delete(id);
    this.loaded = true;
    this.render();
  }

  // Records an object received elsewhere; redraws only if it was unknown, or has another place or name.
  learn(conversation) {
    if (conversation === this.#learned) return;
    this.#learned = conversation;
    const known = this.conversations.get(conversation.id);
    conversation.order = known?.order ?? ++this.#newest;
    conversation.heard = ++this.#heard;
    this.conversations.set(conversation.id, conversation);
    // Another window may have renamed or moved it.
    if (!known || JSON.stringify(known.metadata) !== JSON.stringify(conversation.metadata)) this.render();
  }

  // Adds or updates a conversation.
  put(conversation) {
    this.learn(conversation);
    this.render();
  }

  remove(id) {
    this.#removed.add(id);
    this.conversations.delete(id);
  }

  // Takes back a removal.
  restore(conversations) {
    for (const conversation of conversations) {
      this.#removed.delete(conversation.id);
      this.learn(conversation);
    }
    this.render();
  }

  setCurrent(id) {
    this.#current = id;
    this.render();
  }

  family(root) {
    return [...this.conversations.values()].filter((conversation) => rootOf(conversation) === root);
  }

  // The list's entries: [{root, id, title, updated, running, members}], most recently used first.
  entries() {
    const entries = new Map();
    for (const conversation of this.conversations.values()) {
      const root = rootOf(conversation);
      const entry = entries.get(root);
      if (entry) entry.members.push(conversation);
      else entries.set(root, { root, members: [conversation] });
    }
    for (const entry of entries.values()) {
      const latest = entry.members.reduce(laterUsed);
      const first = this.conversations.get(entry.root) ?? latest;
      Object.assign(entry, {
        id: latest.id, order: latest.order, updated: latest.ringside.updated_at, running: entry.members.some((one) => one.ringside.active_response_id),
        damaged: entry.members.some((one) => one.ringside.damaged), title: first.metadata.title || latest.metadata.title || t("Untitled"),
        pinned: first.metadata.pinned === "1", archived: first.metadata.archived === "1", shared: first.metadata.shared === "1",
        folder: first.metadata.folder ?? "",
      });
    }
    return [...entries.values()].sort((a, b) => b.updated - a.updated || b.order - a.order);
  }

  title(conversation) {
    const first = this.conversations.get(rootOf(conversation)) ?? conversation;
    return first.metadata.title || conversation.metadata.title || t("Untitled");
  }

  render() {
    const focused = document.activeElement?.closest?.("[data-id]")?.dataset.id;
    const top = this.list.scrollTop;
    const found = this.entries().filter(({ title }) => title.toLowerCase().includes(this.#query));
    const entries = found.filter(({ archived }) => !archived);
    const archived = found.filter((entry) => entry.archived);
    const groups = [];
    const loose = entries.filter(({ folder, pinned }) => !folder || pinned);
    for (const entry of [...loose.filter(({ pinned }) => pinned), ...loose.filter(({ pinned }) => !pinned)]) {
      const name = entry.pinned ? t("Pinned") : period(entry.updated);
      if (name !== groups.at(-1)?.name) groups.push({ name, rows: [] });
      groups.at(-1).rows.push(this.#row(entry));
    }
    this.list.replaceChildren(...groups.map(({ name, rows }, i) =>
      el("section", { "aria-labelledby": `period-${i}` }, el("h2", { id: `period-${i}` }, name), el("ul", {}, ...rows))));
    this.list.prepend(...this.#folders(entries.filter(({ folder, pinned }) => folder && !pinned)));
    if (archived.length) this.list.append(this.#archive(archived));
    if (this.#query) this.list.append(...this.#matches(found));
    if (!found.length && !this.#found.length && !this.#searching && this.loaded) {
      this.list.append(el("p", { class: "none" }, this.#query ? t("Nothing found.") : t("Your conversations will appear here.")));
    }
    this.list.scrollTop = top;
    if (focused) this.list.querySelector(`[data-id="${CSS.escape(focused)}"] a`)?.focus({ preventScroll: true });
  }

  // Searches the messages, a moment after the last letter.
  #searchTexts() {
    clearTimeout(this.#searchTimer);
    this.#texts.stop();
    this.#searching = this.#query.length >= SHORTEST_QUERY;
    if (!this.#searching) return;
    this.#searchTimer = setTimeout(async () => {
      const finished = await this.#texts.run(this.#query, (match) => {
        this.#found.push(match);
        this.render();
      });
      if (!finished) return;
      this.#searching = false;
      this.render();
    }, SEARCH_PAUSE_MS);
  }

  // The conversations whose messages match, without those whose titles do.
  #matches(titled) {
    const shown = new Set(titled.map(({ root }) => root));
    const entries = new Map(this.entries().map((entry) => [entry.root, entry]));
    const rows = [];
    for (const { id, excerpt } of this.#found) {
      const found = this.conversations.get(id);
      const entry = found && entries.get(rootOf(found));
      // All versions of a conversation are one entry.
      if (!entry || shown.has(entry.root)) continue;
      shown.add(entry.root);
      const row = this.#row({ ...entry, id });
      row.querySelector("a").append(el("span", { class: "snippet" }, excerpt.before, el("mark", {}, excerpt.match), excerpt.after));
      rows.push(row);
    }
    if (!rows.length) return this.#searching ? [el("p", { class: "none", role: "status" }, t("Searching the messages …"))] : [];
    return [el("section", { "aria-labelledby": "in-messages" }, el("h2", { id: "in-messages" }, t("In messages")), el("ul", { class: "matches" }, ...rows))];
  }

  // The names of the folders of entries, sorted.
  folders(entries = this.entries()) {
    return [...new Set(entries.map(({ folder }) => folder).filter(Boolean))].sort((a, b) => a.localeCompare(b));
  }

  #folders(entries) {
    return this.folders(entries).map((name) => this.#fold("folder", name, entries.filter(({ folder }) => folder === name), `folder.${name}`));
  }

  #archive(entries) {
    return this.#fold("archive", t("Archived"), entries, "archive");
  }

  // A section that folds. Open while a search looks into it.
  #fold(kind, name, entries, key) {
    const details = el("details", { class: `fold ${kind}`, open: this.#open.has(key) || this.#query !== "" },
      el("summary", {}, icon(kind, 15), el("bdi", {}, name), el("span", {}, count(entries.length))), el("ul", {}, ...entries.map((entry) => this.#row(entry))));
    details.addEventListener("toggle", () => {
      if (this.#query) return;
      if (details.open) this.#open.add(key);
      else this.#open.delete(key);
      save("open", [...this.#open]);
    });
    return details;
  }

  #row(entry) {
    const current = entry.members.some(({ id }) => id === this.#current);
    const more = el("button", { type: "button", class: "icon quiet more", "aria-label": t("More for {title}", { title: entry.title }), "aria-haspopup": "menu", onclick: (event) => {
      event.stopPropagation();
      this.#openMenu(entry, more);
    } }, icon("more"));
    return el("li", { class: current ? "entry current" : "entry", "data-id": entry.id },
      el("a", { href: `#/${encodeURIComponent(entry.id)}`, "aria-current": current && "page" },
        entry.running ? el("span", { class: "running", role: "img", "aria-label": t("being answered") }) : null,
        entry.shared ? el("span", { class: "shared-mark", role: "img", "aria-label": t("shared") }, icon("share", 14)) : null,
        entry.damaged ? el("span", { class: "broken", role: "img", "aria-label": t("damaged") }, icon("warn", 15)) : null,
        el("span", { class: "title" }, el("bdi", {}, entry.title))), more);
  }

  #openMenu(entry, button) {
    this.#closeMenu();
    const item = (name, label, run, kind) => el("button", { type: "button", role: "menuitem", class: kind, onclick: () => { this.#closeMenu(true); run(entry); } }, icon(name, 16), label);
    const menu = el("div", { class: "menu", role: "menu", "aria-label": entry.title }, item("edit", t("Rename"), this.act.rename),
      item("pin", entry.pinned ? t("Unpin") : t("Pin"), this.act.pin), item("archive", entry.archived ? t("Take out of the archive") : t("Archive"), this.act.archive),
      item("folder", t("Move to a folder"), this.act.move), item("share", t("Share"), this.act.share),
      item("file", t("Save as Markdown"), this.act.saveMarkdown), item("file", t("Save as JSON"), this.act.saveJson), item("save", t("Export for Ringside"), this.act.saveSealed), item("trash", t("Delete"), this.act.remove, "danger"));
    menu.addEventListener("keydown", (event) => {
      if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
      event.preventDefault();
      const items = [...menu.children];
      const step = event.key === "ArrowDown" ? 1 : -1;
      items[(items.indexOf(document.activeElement) + step + items.length) % items.length].focus();
    });
    this.#menu = menu;
    menu.opener = button;
    button.setAttribute("aria-expanded", "true");
    const place = button.getBoundingClientRect();
    byId("sidebar").append(menu);
    const height = menu.offsetHeight;
    menu.style.left = `${Math.max(8, Math.min(place.left, innerWidth - menu.offsetWidth - 8))}px`;
    menu.style.top = `${place.bottom + height + 8 > innerHeight ? place.top - height - 4 : place.bottom + 4}px`;
    menu.firstElementChild.focus();
  }

  #closeMenu(giveBack = false) {
    if (!this.#menu) return;
    const { opener } = this.#menu;
    opener.removeAttribute("aria-expanded");
    this.#menu.remove();
    this.#menu = null;
    if (giveBack) opener.focus();
  }

  #searchKey(event) {
    const first = this.list.querySelector(".entry a");
    if (event.key === "Escape" && this.search.value) {
      event.stopPropagation();
      this.search.value = this.#query = "";
      this.#found = [];
      this.#texts.stop();
      this.render();
    } else if (event.key === "ArrowDown" && first) {
      event.preventDefault();
      first.focus();
    } else if (event.key === "Enter" && first) {
      event.preventDefault();
      first.click();
    }
  }

  #listKey(event) {
    if (event.key !== "ArrowDown" && event.key !== "ArrowUp") return;
    const links = [...this.list.querySelectorAll(".entry a")];
    const at = links.indexOf(document.activeElement);
    if (at < 0) return;
    event.preventDefault();
    const next = links[at + (event.key === "ArrowDown" ? 1 : -1)];
    (next ?? (at === 0 ? this.search : links[at])).focus();
  }
}
