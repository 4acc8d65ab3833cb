// The images of a message: small ones in a row; each opens large in a dialog.
import { show } from "../dialogs/dialog.js";
import { el } from "../dom.js";
import { t } from "../strings.js";

// Only images that are part of the message: the page loads nothing from elsewhere.
const isInline = (url) => /^data:image\/(png|jpeg|webp);base64,/.test(url);

// `alt`: what a screen reader announces.
export const imageElement = (url, alt) => el("img", { src: isInline(url) ? url : "", alt, decoding: "async", draggable: "false" });

function enlarge(url, alt) {
  show(alt, el("div", { class: "lightbox-image" }, imageElement(url, alt)), { className: "lightbox" });
}

// Null without images.
export function imageRow(urls) {
  if (!urls?.length) return null;
  return el("div", { class: "images" }, ...urls.map((url, index) => {
    const alt = t("Image {n}", { n: index + 1 });
    return el("button", { type: "button", class: "image", "aria-label": t("Show image {n} larger", { n: index + 1 }), onclick: () => enlarge(url, alt) }, imageElement(url, alt));
  }));
}
