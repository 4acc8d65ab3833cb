// The files attached to the message that is being written, as chips. Texts are stored with the draft.
import { announce, el } from "../dom.js";
import { size } from "../format.js";
import { icon } from "../icons.js";
import { t } from "../strings.js";
import { imageElement } from "../text/images.js";
import { readFile } from "./files.js";

export class Attachments {
  files = []; // {name, text, pasted} or {name, image}
  readsImages = false; // the model does

  #added = Promise.resolve(); // once all files so far are read

  // `act`: changed(), refuse(reason), write(text): puts a pasted text back into the message.
  constructor(act) {
    this.act = act;
    this.element = el("ul", { class: "chips", "aria-label": t("Attached files"), hidden: true });
  }

  get texts() {
    return this.files.filter(({ image }) => !image);
  }

  // Data URLs.
  get images() {
    return this.files.filter(({ image }) => image).map(({ image }) => image);
  }

  set(files) {
    this.files = files;
    this.element.hidden = !files.length;
    this.element.replaceChildren(...files.map((file) => this.#chip(file)));
  }

  /** In the order of the calls, however long each file takes to read. */
  add(files) {
    const chosen = [...files];
    this.#added = this.#added.catch(() => {}).then(() => this.#addNow(chosen));
    return this.#added;
  }

  async #addNow(files) {
    const read = await Promise.all(files.map((file) => readFile(file, this.readsImages)));
    const refused = read.filter((file) => file.refused);
    const good = read.filter((file) => !file.refused);
    if (good.length) {
      this.set([...this.files, ...good]);
      this.act.changed();
      announce(t("Attached: {names}", { names: good.map(({ name }) => name).join(", ") }));
    }
    if (refused.length) this.act.refuse(refused.map((file) => file.refused).join(" "));
  }

  addPasted(text) {
    const number = this.files.filter((file) => file.pasted).length;
    this.set([...this.files, { name: number ? `pasted-${number + 1}.txt` : "pasted.txt", text, pasted: true }]);
    this.act.changed();
    announce(t("The long text was attached as a file."));
  }

  #remove(file) {
    this.set(this.files.filter((other) => other !== file));
    this.act.changed();
  }

  #chip(file) {
    const button = (name, label, run) => el("button", { type: "button", class: "icon quiet", "aria-label": label, title: label, onclick: run }, icon(name, 15));
    return el("li", { class: "chip" }, file.image ? imageElement(file.image, "") : icon("file", 16), el("bdi", { class: "name", title: file.name }, file.name),
      file.image ? null : el("span", { class: "size" }, size(file.text.length)),
      file.pasted ? button("edit", t("Put {name} into the message", { name: file.name }), () => {
        this.#remove(file);
        this.act.write(file.text);
      }) : null,
      button("close", t("Remove {name}", { name: file.name }), () => this.#remove(file)));
  }
}
