// The notice above the message box: a file that cannot be attached, or a message that exceeds the model's window and the
// ways out.
import { el } from "../dom.js";
import { count } from "../format.js";
import { icon } from "../icons.js";
import { t } from "../strings.js";

export class LimitNotice {
  constructor() {
    this.element = el("div", { class: "limit", role: "alert", hidden: true });
  }

  hide() {
    this.element.hidden = true;
    this.element.replaceChildren();
  }

  #show(text, ...buttons) {
    this.element.hidden = false;
    this.element.replaceChildren(icon("warn", 17), el("p", {}, text), el("div", { class: "buttons" }, ...buttons));
  }

  refuse(reason) {
    this.#show(reason, this.#button(t("Dismiss"), () => this.hide(), "plain"));
  }

  // `act`: shorten(), sendWhole(). A limit of the server holds for a whole message, too.
  exceeds({ tokens, most, more }, act) {
    const text = more
      ? t("This message has more than {most} tokens, which is the limit of this server.", { most: count(most) })
      : t("This message has {n} tokens; the model reads {most} at once.", { n: count(tokens), most: count(most) });
    this.#show(text, this.#button(t("Shorten to its beginning"), act.shorten),
      more ? null : this.#button(t("Send; only the end is read"), act.sendWhole));
  }

  #button(label, run, kind = "") {
    return el("button", { type: "button", class: `button small ${kind}`, onclick: run }, label);
  }
}
