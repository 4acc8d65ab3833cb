// The message box. Every keystroke saves the draft, per conversation, until the server has acknowledged the message.
import { byId, el } from "../dom.js";
import { icon } from "../icons.js";
import { draft } from "../store.js";

export class Composer {
  #id = "new";
  #busy = false;

  // `act`: send(text), stop(), editLast().
  constructor(act) {
    this.act = act;
    this.text = el("textarea", {
      id: "composer-text", rows: "1", placeholder: "Write a message", "aria-label": "Message", autocomplete: "off",
      enterkeyhint: "send", maxlength: "1000000",
    });
    this.button = el("button", { type: "submit", class: "send" });
    this.form = el("form", { class: "box", onsubmit: (event) => { event.preventDefault(); this.#go(); } }, this.text, this.button);
    this.note = el("p", { class: "note" });
    byId("composer").append(this.form, this.note);
    this.text.addEventListener("input", () => this.#typed());
    this.text.addEventListener("keydown", (event) => this.#key(event));
    this.setBusy(false);
  }

  open(id) {
    this.#id = id;
    this.text.value = draft.load(id);
    this.#fit();
    this.#showButton();
  }

  setBusy(busy) {
    this.#busy = busy;
    this.#showButton();
  }

  setNote(...parts) {
    this.note.replaceChildren(...parts);
  }

  put(text) {
    this.text.value = text;
    this.#typed();
    this.text.focus();
  }

  focus() {
    if (matchMedia("(pointer: fine)").matches) this.text.focus({ preventScroll: true });
  }

  #showButton() {
    const label = this.#busy ? "Stop" : "Send";
    if (this.button.getAttribute("aria-label") !== label) {
      this.button.setAttribute("aria-label", label);
      this.button.title = this.#busy ? "Stop (Esc)" : "Send (Enter)";
      this.button.classList.toggle("stops", this.#busy);
      this.button.replaceChildren(icon(this.#busy ? "stop" : "send", 20));
    }
    this.button.disabled = !this.#busy && !this.text.value.trim();
  }

  #typed() {
    draft.save(this.#id, this.text.value);
    this.#fit();
    this.#showButton();
  }

  // For browsers without `field-sizing: content`.
  #fit() {
    if (CSS.supports("field-sizing", "content")) return;
    this.text.style.height = "auto";
    this.text.style.height = `${this.text.scrollHeight}px`;
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

  #go() {
    if (this.#busy) return this.act.stop();
    const text = this.text.value;
    if (!text.trim()) return;
    this.act.send(text, () => {
      this.text.value = "";
      this.#typed();
    });
  }
}
