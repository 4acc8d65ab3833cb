// Mimics the official JavaScript SDK in a browser: its headers, its bodies, its stream parsing. Loaded by a page of
// another origin than the server's.
const KEY = "open-sesame";

const headers = (more) => ({
  Accept: "application/json", "Content-Type": "application/json", Authorization: `Bearer ${KEY}`, "User-Agent": "OpenAI/JS 7.5.0",
  "X-Stainless-Lang": "js", "X-Stainless-Package-Version": "7.5.0", "X-Stainless-OS": "Unknown", "X-Stainless-Arch": "unknown",
  "X-Stainless-Runtime": "browser:chrome", "X-Stainless-Runtime-Version": "140.0.0", "X-Stainless-Retry-Count": "0",
  "X-Stainless-Timeout": "600", "OpenAI-Organization": "org", "OpenAI-Project": "project", ...more,
});

export const post = (base, path, body, options = {}) =>
  fetch(base + path, { method: "POST", headers: headers(options.headers), body: JSON.stringify(body), signal: options.signal });

// Parses server-sent events from bytes split anywhere; [DONE] ends them.
export async function* events(response) {
  const decoder = new TextDecoder();
  let rest = "";
  const reader = response.body.getReader();
  try {
    for (;;) {
      const { value, done } = await reader.read();
      if (done) throw new Error("the stream ended without [DONE]");
      rest += decoder.decode(value, { stream: true });
      const blocks = rest.split(/\r\n\r\n|\n\n|\r\r/);
      rest = blocks.pop();
      for (const block of blocks) {
        const fields = block.split(/\r\n|\n|\r/).filter((line) => line && !line.startsWith(":")).map((line) => /^([^:]*):? ?(.*)$/.exec(line).slice(1));
        const data = fields.filter(([name]) => name === "data").map(([, text]) => text).join("\n");
        if (data.startsWith("[DONE]")) return;
        const name = fields.find(([field]) => field === "event")?.[1] ?? null;
        if (data) yield { name, data: JSON.parse(data) };
      }
    }
  } finally {
    await reader.cancel();
  }
}

// A socket with its key among the subprotocols, because browsers cannot set headers; resolves once it is open.
export function socket(base, path, protocol, key = KEY) {
  const made = new WebSocket(base.replace("http", "ws") + path, [protocol, `openai-insecure-api-key.${key}`]);
  made.heard = [];
  made.waiting = [];
  made.onmessage = ({ data }) => {
    made.heard.push(JSON.parse(data));
    for (const look of made.waiting) look();
  };
  // Resolves to the events so far once one of this type has arrived.
  made.until = (type) => new Promise((resolve, reject) => {
    const look = () => made.heard.some((event) => event.type === type) && resolve(made.heard);
    made.waiting.push(look);
    made.addEventListener("close", () => reject(new Error("closed")));
    look();
  });
  return new Promise((resolve, reject) => {
    made.onopen = () => resolve(made);
    made.onerror = () => reject(new Error("not opened"));
  });
}
