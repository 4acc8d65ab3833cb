// Draws a conversation's memory. The outer ring is the cache: the pinned prefix, then --memory-len places that are
// overwritten in turn; each message in the window is an arc at its actual position. The inner line is the whole
// conversation, dashed where it has left the window.
import { svg } from "./dom.js";

const TURN = 2 * Math.PI;

// Ring positions of a message with tokens [begin, end): [from, to) as fractions of the ring, split at the wrap.
export function arcsOf(begin, end, { pinned, memoryLen, firstLive }) {
  const size = pinned + memoryLen;
  const arcs = [];
  if (begin < pinned) arcs.push([begin / size, Math.min(end, pinned) / size]);
  let from = Math.max(begin, pinned, firstLive, end - memoryLen);
  while (from < end) {
    const slot = (from - pinned) % memoryLen;
    const length = Math.min(end - from, memoryLen - slot);
    arcs.push([(pinned + slot) / size, (pinned + slot + length) / size]);
    from += length;
  }
  return arcs;
}

function arc(from, to, radius, attributes) {
  const point = (turn) => {
    const angle = turn * TURN - Math.PI / 2;
    return `${(50 + radius * Math.cos(angle)).toFixed(3)} ${(50 + radius * Math.sin(angle)).toFixed(3)}`;
  };
  const part = Math.min(to - from, 0.9999);
  return svg("path", { d: `M${point(from)}A${radius} ${radius} 0 ${part > 0.5 ? 1 : 0} 1 ${point(from + part)}`, ...attributes });
}

// `memory`: the server's object; `written`: tokens of the running answer; `small`: for a button.
export function drawRing(memory, { written = 0, small = false } = {}) {
  const width = small ? 14 : 8.5;
  const radius = small ? 40 : 43.5;
  const picture = svg("svg", { viewBox: "0 0 100 100", class: small ? "ring small" : "ring", "aria-hidden": "true" });
  picture.append(svg("circle", { cx: 50, cy: 50, r: radius, class: "track", "stroke-width": width }));
  if (!memory) return picture;
  const view = {
    pinned: memory.pinned, memoryLen: memory.memory_len,
    firstLive: Math.max(memory.first_live, memory.pinned, memory.position + written - memory.memory_len),
  };
  const size = view.pinned + view.memoryLen;
  const gap = small ? 0 : Math.min(0.0022, 0.2 / Math.max(1, memory.messages.length));
  const paint = (begin, end, kind) => {
    for (const [from, to] of arcsOf(begin, end, view)) {
      const part = to - from > 3 * gap ? [from + gap, to - gap] : [from, to];
      picture.append(arc(...part, radius, { class: `part ${kind}`, "stroke-width": width }));
    }
  };
  for (const message of memory.messages) {
    if (message.end <= view.firstLive && message.begin >= view.pinned) continue;
    paint(Math.max(message.begin, view.pinned), message.end, message.role === "assistant" ? "answer" : "question");
  }
  if (view.pinned) picture.append(arc(0, view.pinned / size, radius, { class: "part pinned", "stroke-width": width }));
  if (written) paint(memory.position, memory.position + written, "writing");
  const end = memory.position + written;
  if (!small && end > view.pinned) {
    const head = (view.pinned + ((end - view.pinned) % view.memoryLen)) / size;
    picture.append(arc(head - 0.0025, head + 0.0025, radius, { class: "head", "stroke-width": width + 4 }));
    if (end > 0) drawWhole(picture, view, end);
  }
  return picture;
}

// From the first token to the last: pinned, evicted, in the window.
function drawWhole(picture, view, end) {
  const radius = 34;
  const line = (begin, until, kind) => until > begin && picture.append(arc(begin / end, until / end, radius, { class: `whole ${kind}` }));
  line(Math.max(0, view.pinned), view.firstLive, "gone");
  line(view.firstLive, end, "live");
  line(0, Math.min(view.pinned, end), "pinned");
}
