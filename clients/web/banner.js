// The strip above the messages: connection state, and failures that belong to no message.
import { byId, el } from "./dom.js";
import { icon } from "./icons.js";
import { t } from "./strings.js";

const button = (label, onclick, kind = "") => el("button", { type: "button", class: `button small ${kind}`, onclick }, label);

export class Banner {
  #bar = byId("banner");
  #countdown = 0;

  // `connection`: as reported by a Link. `act`: retry(), take(), signIn().
  show(connection, act) {
    clearInterval(this.#countdown);
    const { state, reason } = connection ?? { state: "open" };
    const again = state === "connecting" && this.#bar.classList.contains("lost");
    if (state === "open" || (state === "connecting" && !again)) return this.#set("");
    if (again) return this.#set("lost", el("span", {}, t("Reconnecting …")));
    if (state === "waiting") return this.#wait(connection, act);
    if (reason === "deleted") {
      this.#set("lost", el("span", {}, t("This conversation was deleted.")));
    } else if (reason === "diverged") {
      this.#set("lost", el("span", {}, t("This conversation has changed on the server.")), button(t("Reload"), () => location.reload()));
    } else if (reason === "key") {
      this.#set("bad", icon("warn", 17), el("span", {}, t("The server requires a key.")), button(t("Sign in"), act.signIn));
    } else {
      this.#set("bad", icon("warn", 17), el("span", {}, reason), button(t("Try again"), act.take));
    }
  }

  fail(message, dismiss) {
    clearInterval(this.#countdown);
    this.#set("bad", icon("warn", 17), el("span", {}, message), button(t("Dismiss"), dismiss, "plain"));
  }

  #set(kind, ...parts) {
    this.#bar.className = kind && `shown ${kind}`;
    this.#bar.replaceChildren(...parts);
  }

  #wait({ until, reason }, act) {
    const left = el("span", { class: "left", "aria-hidden": "true" });
    const tick = () => {
      const wait = Math.max(0, Math.ceil((until - Date.now()) / 1000));
      left.textContent = wait > 0 ? t("Retrying in {n} s.", { n: wait }) : t("Reconnecting …");
    };
    tick();
    this.#countdown = setInterval(tick, 250);
    this.#set("lost", el("span", {}, reason || t("Connection lost. Nothing you wrote is lost.")), left, button(t("Try now"), act.retry));
  }
}
