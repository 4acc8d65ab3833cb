// The list of keys.
import { el } from "../dom.js";
import { t } from "../strings.js";
import { dialogOpen, show } from "./dialog.js";

const MAC = /Mac|iPhone|iPad/.test(navigator.platform);
const KEYS = () => [
  [t("Send"), ["Enter"]],
  [t("New line"), ["Shift", "Enter"]],
  [t("Stop the answer"), ["Esc"]],
  [t("Edit your last message"), ["↑"]],
  [t("Search conversations"), ["Mod", "K"]],
  [t("Show or hide conversations"), ["Mod", "B"]],
  [t("Show or hide the memory"), ["Mod", "."]],
  [t("New conversation"), ["Mod", "Shift", "O"]],
  [t("This list"), ["?"]],
  [t("This list, while writing"), ["Mod", "/"]],
];

export function openHelp() {
  if (dialogOpen()) return;
  const rows = KEYS().map(([what, keys]) =>
    el("div", { class: "key-row" }, el("dt", {}, what),
      el("dd", {}, ...keys.map((key) => el("kbd", {}, key === "Mod" ? (MAC ? "⌘" : "Ctrl") : key)))));
  return show(t("Keyboard"), el("dl", { class: "keys" }, ...rows), { className: "small" });
}
