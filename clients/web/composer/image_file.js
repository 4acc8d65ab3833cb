// An image that a reader drops, pastes or chooses, as a data URL that the server reads: PNG, JPEG or WebP. Others that
// the browser shows, and large ones, become a JPEG.
import { t } from "../strings.js";

const SENT = new Set(["image/png", "image/jpeg", "image/webp"]);
const MOST_BYTES = 1_000_000; // of a file that is sent as it is: several fit in a message
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

// Resolves to {name, image}, or {name, refused}. `name`: without white space at its ends.
export async function readImage(file, name) {
  try {
    const bitmap = await createImageBitmap(file, { imageOrientation: "from-image" });
    const asItIs = SENT.has(file.type) && file.size <= MOST_BYTES && Math.max(bitmap.width, bitmap.height) <= MOST_PIXELS;
    const image = await urlOf(asItIs ? file : await asJpeg(bitmap));
    bitmap.close();
    return { name, image };
  } catch {
    return { name, refused: t("{name} cannot be read as an image.", { name }) };
  }
}
