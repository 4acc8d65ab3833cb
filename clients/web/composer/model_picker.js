// The name of the model below the message box; a choice if the server has several models, adapters or other names.
import { el } from "../dom.js";
import { load, save } from "../store.js";
import { t } from "../strings.js";

export class ModelPicker {
  #models = []; // names
  #entries = [];
  #used = ""; // by the open conversation; "" for a new one
  #picked = null;
  #several = false; // several models: a conversation keeps the one of its first answer

  // `changed` is called when another model may be current.
  constructor(changed) {
    this.changed = changed;
    this.element = el("span", { class: "model" });
  }

  // `models`: entries of the server's list; the first is the served model, or the default one.
  setModels(models) {
    this.#several = models.some(({ ringside }) => ringside?.state);
    this.#entries = models.filter(({ ringside }) => ringside?.state !== "unsupported");
    this.#models = this.#entries.map(({ id }) => id);
    if (this.#models.length < 2) {
      this.element.replaceChildren(...this.#models);
      return this.#show();
    }
    this.choice = el("select", { "aria-label": t("Model"), onchange: () => this.#pick(this.choice.value) }, ...this.#models.map((id) => el("option", { value: id }, id)));
    this.element.replaceChildren(this.choice);
    this.#show();
  }

  // The open conversation, or null.
  open(conversation) {
    const { model, adapter } = conversation?.info?.ringside ?? {};
    const used = this.#several ? model || "" : conversation ? adapter || this.#models[0] || "" : "";
    if (this.choice) this.choice.disabled = this.#several && Boolean(used);
    if (used === this.#used) return;
    this.#used = used;
    this.#picked = null;
    this.#show();
  }

  // Whether the current model reads images; null if that is unknown, as for some models that are not loaded.
  readsImages() {
    const entry = this.#entries.find(({ id }) => id === this.#current()) ?? this.#entries[0];
    if (!entry) return null;
    if (entry.input_modalities?.includes("image")) return true;
    return ["unloaded", "loading", "failed"].includes(entry.ringside?.state) ? null : false;
  }

  // Fields of a request that names another model than the conversation's last one.
  fields() {
    const model = this.#current();
    return this.#models.includes(model) && model !== (this.#used || this.#models[0]) ? { model } : {};
  }

  #pick(model) {
    this.#picked = model;
    save("model", model === this.#models[0] ? null : model);
    this.changed();
  }

  #current() {
    return this.#picked ?? (this.#used || load("model", this.#models[0]));
  }

  #show() {
    if (this.choice) this.choice.value = this.#models.includes(this.#current()) ? this.#current() : this.#models[0];
    this.changed();
  }
}
