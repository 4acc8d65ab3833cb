// The files attached to the message that is being written, as chips. Texts are stored with the draft.
import { announce, el } from "../dom.js";
import { size } from "../format.js";
import { icon } from "../icons.js";
import { t } from "../strings.js";
import { enlarge, imageElement } from "../text/images.js";
import { readFile } from "./files.js";

const TEXT_BYTES = 4 << 20; // of a request without its images
const OTHER_FIELDS = 64 << 10; // bytes of a request without the message

// In bytes, of images in base64. `request`: the server's own; a server that reports none has that of text.
export function limitsOf(request = TEXT_BYTES) {
  const text = Math.min(request, TEXT_BYTES) - OTHER_FIELDS;
  return { request: request - OTHER_FIELDS, text, images: Math.max(text, request - TEXT_BYTES) };
}

export class Attachments {
  files = []; // {name, text, pasted} or {name, image}
  readsImages = null; // whether the model does; null: unknown
  limits = limitsOf();

  #added = Promise.resolve(true); // once all files so far are read: whether the last ones were attached
  #reading = 0; // calls of add() in progress
  #kept = new Map(); // images of the drafts of other conversations, until the page is closed
  #id = "";

  // `act`: changed(), refuse(reason), write(text): puts a pasted text back into the message, focus(): to the message.
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

  // While files are being read, a promise: whether the last ones were attached. Else null.
  get reading() {
    return this.#reading ? this.#added : null;
  }

  // Shows the files of a conversation's draft; `texts` are those that were stored.
  open(id, texts) {
    this.#kept.set(this.#id, this.files.filter(({ image }) => image));
    this.#id = id;
    this.set([...(this.#kept.get(id) ?? []), ...texts]);
  }

  set(files) {
    this.files = files;
    this.element.hidden = !files.length;
    this.element.replaceChildren(...files.map((file) => this.#chip(file)));
  }

  /** In the order of the calls, however long each file takes to read. */
  add(files) {
    const chosen = [...files], id = this.#id;
    this.#reading += 1;
    this.#added = this.#added.then(() => this.#addNow(chosen, id)).finally(() => { this.#reading -= 1; });
    return this.#added;
  }

  // One at a time: a decoded photo takes 50 MB or more. Base64 has four characters for three bytes.
  async #addNow(files, id) {
    const good = [], refused = [];
    let left = this.limits.images - this.images.reduce((sum, image) => sum + image.length, 0);
    for (const file of files) {
      const read = await readFile(file, this.readsImages, this.limits.images * 0.75);
      left -= read.image?.length ?? 0;
      if (read.refused) refused.push(read.refused);
      else if (read.image && left < 0) refused.push(this.#beyondLimit(read));
      else good.push(read);
      if (read.image && left < 0) left += read.image.length;
    }
    if (id !== this.#id) {
      this.#kept.set(id, [...(this.#kept.get(id) ?? []), ...good]);
      return false;
    }
    if (good.length) {
      this.set([...this.files, ...good]);
      this.act.changed();
      announce(t("Attached: {names}", { names: good.map(({ name }) => name).join(", ") }));
    }
    if (refused.length) this.act.refuse(refused.join(" "));
    return !refused.length;
  }

  #beyondLimit({ name }) {
    return t("{name} was not attached: the images of a message may have {limit} in all.", { name, limit: size(this.limits.images * 0.75) });
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
    this.act.focus();
  }

  #preview(file) {
    const shown = this.files.filter(({ image }) => image).map(({ name, image }) => ({ url: image, alt: name }));
    const label = t("Show {name} larger", { name: file.name });
    return el("button", { type: "button", class: "preview", "aria-label": label, title: label, onclick: () => enlarge(shown, this.images.indexOf(file.image)) }, imageElement(file.image, file.name));
  }

  #chip(file) {
    const button = (name, label, run) => el("button", { type: "button", class: "icon quiet", "aria-label": label, title: label, onclick: run }, icon(name, 15));
    return el("li", { class: file.image ? "chip picture" : "chip" }, file.image ? this.#preview(file) : icon("file", 16), el("bdi", { class: "name", title: file.name }, file.name),
      file.image ? null : el("span", { class: "size" }, size(file.text.length)),
      file.pasted ? button("edit", t("Put {name} into the message", { name: file.name }), () => {
        this.#remove(file);
        this.act.write(file.text);
      }) : null,
      button("close", t("Remove {name}", { name: file.name }), () => this.#remove(file)));
  }
}
