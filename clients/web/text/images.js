// The images of a message: small ones in a row; each opens large in a dialog.
import { show } from "../dialogs/dialog.js";
import { el } from "../dom.js";
import { icon } from "../icons.js";
import { t } from "../strings.js";

// Only images that are part of the message: the page loads nothing from elsewhere.
const isInline = (url) => /^data:image\/(png|jpeg|webp);base64,/.test(url);

// `alt`: what a screen reader announces.
export const imageElement = (url, alt) => el("img", { src: isInline(url) ? url : "", alt, decoding: "async", draggable: "false" });

// Shows one of these images large; the arrow keys show its neighbours. `images`: [{url, alt}].
export function enlarge(images, at) {
  const title = el("bdi", { "aria-live": "polite" }), picture = el("div", { class: "lightbox-image" });
  const button = (name, label, step) => el("button", { type: "button", class: "icon", "aria-label": label, title: label, onclick: () => go(step) }, icon(name));
  const go = (step) => {
    at = (at + step + images.length) % images.length;
    const { url, alt } = images[at];
    title.textContent = alt;
    picture.replaceChildren(imageElement(url, alt));
  };
  go(0);
  const buttons = images.length > 1 ? [button("left", t("Previous image"), -1), button("right", t("Next image"), 1)] : [];
  show(title, picture, { className: "lightbox", buttons });
  picture.closest("dialog").addEventListener("keydown", ({ key }) => {
    const step = { ArrowLeft: -1, ArrowRight: 1 }[key];
    if (step && images.length > 1) go(step);
  });
}

// Null without images.
export function imageRow(urls) {
  if (!urls?.length) return null;
  const images = urls.map((url, index) => ({ url, alt: t("Image {n}", { n: index + 1 }) }));
  return el("div", { class: "images" }, ...images.map(({ url, alt }, index) =>
    el("button", { type: "button", class: "image", "aria-label": t("Show image {n} larger", { n: index + 1 }), onclick: () => enlarge(images, index) }, imageElement(url, alt))));
}
