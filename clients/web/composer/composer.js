// The message box with its attached files. Every keystroke saves the draft, per conversation, until the server has
// acknowledged the message. The message is counted against the model's window before it is sent.
import { byId, el } from "../dom.js";
import { count, size } from "../format.js";
import { icon } from "../icons.js";
import { attached, draft } from "../store.js";
import { t } from "../strings.js";
import { takeFiles, withFiles } from "../text/user_text.js";
import { Attachments, limitsOf } from "./attachments.js";
import { Budget } from "./budget.js";
import { LimitNotice } from "./limit_notice.js";
import { ModelPicker } from "./model_picker.js";

const LONG_PASTE = 6000; // characters; a longer pasted text becomes a file

// Whether a text lists the names or paths of these files, as file managers copy them.
function namesOnly(text, files) {
  const names = new Set(files.map(({ name }) => name));
  return text.split(/[\r\n]+/).every((line) => names.has(line.trim().split(/[/\\]/).at(-1)));
}

export class Composer {
  #id = "new";
  #busy = false;
  #checking = false;

  // `act`: send(message, sent, {truncated, images}), stop(), editLast(), help(), inView(): tokens that the model sees now.
  constructor(act) {
    this.act = act;
    this.text = el("textarea", {
      id: "composer-text", rows: "1", placeholder: t("Write a message"), "aria-label": t("Message"), autocomplete: "off",
      enterkeyhint: "send", maxlength: "1000000",
    });
    this.button = el("button", { type: "submit", class: "send" });
    this.file = el("input", { type: "file", multiple: true, class: "unseen", tabindex: "-1", "aria-hidden": "true", onchange: () => {
      this.attachments.add(this.file.files).then(() => { this.file.value = ""; });
    } });
    this.clip = el("button", { type: "button", class: "icon clip", "aria-label": t("Attach text or PDF files"), title: t("Attach text or PDF files"), onclick: () => this.file.click() }, icon("clip", 20));
    this.attachments = new Attachments({ changed: () => this.#typed(), refuse: (reason) => this.notice.refuse(reason), write: (text) => this.#insert(text), focus: () => this.text.focus() });
    this.notice = new LimitNotice();
    this.budget = new Budget((result) => this.#showCount(result));
    this.form = el("form", { class: "box", onsubmit: (event) => { event.preventDefault(); this.#go(); } },
      this.attachments.element, el("div", { class: "line" }, this.clip, this.file, this.text, this.button));
    this.picker = new ModelPicker(() => this.#showImages());
    this.tokens = el("span", { class: "tokens" });
    byId("composer").append(this.notice.element, this.form, el("p", { class: "note" }, this.picker.element, this.tokens));
    this.text.addEventListener("input", () => this.#typed());
    this.text.addEventListener("keydown", (event) => this.#key(event));
    document.addEventListener("paste", (event) => this.#paste(event));
    this.#takeDrops();
    this.setBusy(false);
  }

  open(id) {
    this.#id = id;
    this.text.value = draft.load(id);
    this.attachments.open(id, attached.load(id));
    this.notice.hide();
    this.#fit();
    this.#showButton();
    this.budget.watch(this.message());
  }

  setBusy(busy) {
    this.#busy = busy;
    this.#showButton();
  }

  setModels(models) {
    this.budget.model = models[0];
    this.attachments.limits = limitsOf(models[0]?.ringside?.max_request_bytes);
    this.picker.setModels(models);
    this.budget.watch(this.message());
  }

  #showImages() {
    this.attachments.readsImages = this.picker.readsImages();
    const label = this.attachments.readsImages ? t("Attach images, text or PDF files") : t("Attach text or PDF files");
    this.clip.setAttribute("aria-label", label);
    this.clip.title = label;
  }

  message() {
    return withFiles(this.text.value, this.attachments.texts);
  }

  // Replaces the draft by a message. `images`: data URLs.
  put(message, images = []) {
    const { text, files } = takeFiles(message);
    this.text.value = text;
    this.attachments.set([...images.map((image, index) => ({ name: t("Image {n}", { n: index + 1 }), image })), ...files]);
    this.#typed();
    this.text.focus();
  }

  focus() {
    if (matchMedia("(pointer: fine)").matches) this.text.focus({ preventScroll: true });
  }

  #showButton() {
    const label = this.#busy ? t("Stop") : t("Send");
    if (this.button.getAttribute("aria-label") !== label) {
      this.button.setAttribute("aria-label", label);
      this.button.title = this.#busy ? t("Stop (Esc)") : t("Send (Enter)");
      this.button.classList.toggle("stops", this.#busy);
      this.button.replaceChildren(icon(this.#busy ? "stop" : "send", 20));
    }
    this.button.disabled = !this.#busy && !this.text.value.trim() && !this.attachments.files.length;
  }

  // The tokens of the message, out of those that the model reads at once.
  #showCount(result) {
    this.tokens.classList.toggle("over", Boolean(result && result.tokens > result.most));
    if (!result) return void (this.tokens.textContent = "");
    const leaves = result.tokens <= result.most && this.act.inView() + result.tokens > result.most;
    const text = t("{n} of {most} tokens", { n: result.more ? `> ${count(result.most)}` : count(result.tokens), most: count(result.most) });
    this.tokens.textContent = leaves ? `${text} · ${t("the oldest messages leave the window")}` : text;
  }

  #typed() {
    draft.save(this.#id, this.text.value);
    attached.save(this.#id, this.attachments.texts);
    if (this.text.value || this.attachments.files.length) this.notice.hide();
    this.#fit();
    this.#showButton();
    this.budget.watch(this.message());
  }

  // For browsers without `field-sizing: content`.
  #fit() {
    if (CSS.supports("field-sizing", "content")) return;
    this.text.style.height = "auto";
    this.text.style.height = `${this.text.scrollHeight}px`;
  }

  #insert(text) {
    this.text.focus();
    this.text.setRangeText(text, this.text.selectionStart, this.text.selectionEnd, "end");
    this.#typed();
  }

  #key(event) {
    if (event.isComposing) return;
    if (event.key === "Enter" && !event.shiftKey && !event.ctrlKey && !event.metaKey && !event.altKey) {
      event.preventDefault();
      if (!this.#busy) this.#go();
    } else if (event.key === "ArrowUp" && !this.text.value) {
      event.preventDefault();
      this.act.editLast();
    }
  }

  // Files may be pasted wherever no other field has the focus.
  #paste(event) {
    const here = event.target === this.text;
    if (!here && event.target.closest?.("input, textarea, dialog")) return;
    const files = [...event.clipboardData.files];
    const text = event.clipboardData.getData("text/plain");
    if (files.length && (!text || namesOnly(text, files))) {
      event.preventDefault();
      this.attachments.add(files);
    } else if (here && text.length > LONG_PASTE) {
      event.preventDefault();
      this.attachments.addPasted(text.replace(/\r\n?/g, "\n"));
    }
  }

  // Anywhere: the browser would leave the page for a file that is dropped elsewhere.
  #takeDrops() {
    const main = byId("main");
    const hasFiles = (event) => event.dataTransfer?.types.includes("Files");
    addEventListener("dragover", (event) => {
      if (!hasFiles(event)) return;
      event.preventDefault();
      main.classList.add("dropping");
    });
    addEventListener("dragleave", (event) => event.relatedTarget || main.classList.remove("dropping"));
    addEventListener("drop", (event) => {
      main.classList.remove("dropping");
      if (!hasFiles(event)) return;
      event.preventDefault();
      this.attachments.add(event.dataTransfer.files);
    });
  }

  async #go() {
    if (this.#busy) return this.act.stop();
    if (this.#checking || (this.attachments.reading && !(await this.#filesAreRead()))) return;
    const message = this.message();
    if (!message.trim() && !this.attachments.images.length) return;
    const limit = this.#exceededLimit(message);
    if (limit) return this.notice.refuse(t("This message with its files is larger than {limit}, which is the limit of this server.", { limit: size(limit) }));
    if (this.budget.mayExceed(message)) {
      this.#checking = true;
      const result = await this.budget.count(message);
      this.#checking = false;
      if (result && result.tokens > result.most) return this.#offer(message, result);
      if (message !== this.message()) return; // changed meanwhile
    }
    this.#send(message);
  }

  // False if a file was refused, another conversation was opened or an answer was started meanwhile.
  async #filesAreRead() {
    const id = this.#id;
    this.#checking = true;
    const attached = await this.attachments.reading;
    this.#checking = false;
    return attached && id === this.#id && !this.#busy;
  }

  // In bytes; 0 if the message can be sent.
  #exceededLimit(message) {
    const { request, text } = this.attachments.limits;
    const images = this.attachments.images.reduce((sum, image) => sum + image.length, 0);
    const bytes = new TextEncoder().encode(JSON.stringify(message)).length;
    return bytes > text ? text : images + bytes > request ? request : 0;
  }

  #send(message, options = {}) {
    this.notice.hide();
    this.act.send(message, () => {
      this.text.value = "";
      this.attachments.set([]);
      this.#typed();
    }, { ...options, images: this.attachments.images });
  }

  #offer(message, result) {
    this.#showCount(result);
    this.notice.exceeds(result, { shorten: () => this.#shorten(), sendWhole: () => this.#send(message, { truncated: true }) });
  }

  // Cuts the longest part of the message, the text or a file.
  async #shorten() {
    const { texts: files, files: all } = this.attachments;
    const longest = files.reduce((most, file) => (file.text.length > (most?.text.length ?? this.text.value.length) ? file : most), null);
    const without = (text) => (longest
      ? withFiles(this.text.value, files.map((file) => (file === longest ? { ...file, text } : file)))
      : withFiles(text, files));
    const cut = await this.budget.shorten(longest ? longest.text : this.text.value, without);
    if (longest) this.attachments.set(all.map((file) => (file === longest ? { ...file, text: cut } : file)));
    else this.text.value = cut;
    this.notice.hide();
    this.#typed();
    this.text.focus();
  }
}
