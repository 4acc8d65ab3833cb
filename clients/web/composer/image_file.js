// Images as data URLs that the server reads: PNG, JPEG or WebP. Others, and large ones, become a JPEG.
import { t } from "../strings.js";

const SENT = new Set(["image/png", "image/jpeg", "image/webp"]);
const LEAST_BYTES = 1_000_000; // a file of at most this size is sent as it is
const MOST_PIXELS = 2048; // of a side

// A drawing (SVG) is a text.
export const isImage = ({ type }) => type.startsWith("image/") && type !== "image/svg+xml";

const urlOf = (blob) => new Promise((resolve, reject) => {
  const reader = new FileReader();
  reader.onload = () => resolve(reader.result);
  reader.onerror = () => reject(reader.error);
  reader.readAsDataURL(blob);
});

async function asJpeg(bitmap) {
  const scale = Math.min(1, MOST_PIXELS / Math.max(bitmap.width, bitmap.height));
  const canvas = document.createElement("canvas");
  canvas.width = Math.max(1, Math.round(bitmap.width * scale));
  canvas.height = Math.max(1, Math.round(bitmap.height * scale));
  const context = canvas.getContext("2d");
  context.fillStyle = "#fff"; // the color of transparent pixels
  context.fillRect(0, 0, canvas.width, canvas.height);
  context.imageSmoothingQuality = "high";
  context.drawImage(bitmap, 0, 0, canvas.width, canvas.height);
  return new Promise((resolve) => { canvas.toBlob(resolve, "image/jpeg", 0.88); });
}

// Resolves to {name, image}, or {name, refused}. `most`: bytes of a message's images; several files of an eighth fit.
export async function readImage(file, name, most) {
  try {
    const bitmap = await createImageBitmap(file, { imageOrientation: "from-image" });
    const isSmall = file.size <= Math.max(LEAST_BYTES, most / 8) && Math.max(bitmap.width, bitmap.height) <= MOST_PIXELS;
    const image = await urlOf(isSmall && SENT.has(file.type) ? file : await asJpeg(bitmap));
    bitmap.close();
    return { name, image };
  } catch {
    return { name, refused: t("{name} cannot be read as an image.", { name }) };
  }
}
