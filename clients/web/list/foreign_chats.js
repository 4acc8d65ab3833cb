// Conversations in the files of this page, of ChatGPT and of Open WebUI, as {title, items, pinned, archived, instructions}.
// Pure functions. The files are foreign: only strings are read from them, and links between messages are followed once.
const MOST_MESSAGES = 20_000;
const ROLES = new Set(["user", "assistant", "system", "developer"]);

const string = (value) => (typeof value === "string" ? value : "");
const own = (object, key) => (object && typeof object === "object" && Object.hasOwn(object, key) ? object[key] : undefined);

// Consecutive messages of an assistant are one answer.
function joined(messages) {
  const items = [];
  for (const { role, text } of messages) {
    if (!ROLES.has(role) || !text.trim()) continue;
    const last = items.at(-1);
    if (role === "assistant" && last?.role === "assistant") last.content += `\n\n${text}`;
    else items.push({ role, content: text });
  }
  return items;
}

// From the current message to the first one, in reading order. `parentOf(message)`: key of the one before.
function path(messages, from, parentOf) {
  const found = [];
  const seen = new Set();
  for (let key = from; key && !seen.has(key) && found.length < MOST_MESSAGES; ) {
    seen.add(key);
    const message = own(messages, key);
    if (!message) break;
    found.push(message);
    key = parentOf(message);
  }
  return found.reverse();
}

// ---- ChatGPT: conversations.json -------------------------------------------------------------------------------------

function chatGptText({ content } = {}) {
  const parts = Array.isArray(content?.parts) ? content.parts.map((part) => (typeof part === "string" ? part : part?.text ? string(part.text) : "[image]")) : [];
  switch (content?.content_type) {
    case "text": return parts.join("\n");
    case "multimodal_text": return parts.join("\n");
    case "code": return `\`\`\`${string(content.language) === "unknown" ? "" : string(content.language)}\n${string(content.text)}\n\`\`\``;
    default: return ""; // thoughts, search results, settings
  }
}

function fromChatGpt(chat) {
  const leaf = string(chat.current_node) || Object.keys(chat.mapping).at(-1);
  const nodes = path(chat.mapping, leaf, (node) => string(node.parent));
  const shown = nodes.map(({ message }) => message).filter((message) => message && !message.metadata?.is_visually_hidden_from_conversation);
  return {
    title: string(chat.title), archived: chat.is_archived === true, pinned: chat.is_starred === true, instructions: "",
    items: joined(shown.filter((message) => message.recipient === undefined || message.recipient === "all").map((message) => ({ role: string(message.author?.role), text: chatGptText(message) }))),
  };
}

// ---- Open WebUI: a list of chats -------------------------------------------------------------------------------------

function plainText(content) {
  const text = Array.isArray(content) ? content.map((part) => string(part?.text) || "[image]").join("\n") : string(content);
  return text.replace(/<details type="reasoning"[^>]*>[^]*?<\/details>\s*/g, "");
}

function fromOpenWebUi(entry) {
  const chat = entry.chat;
  const { history } = chat;
  const messages = history?.messages ? path(history.messages, string(history.currentId), (message) => string(message.parentId)) : chat.messages;
  return {
    title: string(chat.title) || string(entry.title), archived: entry.archived === true, pinned: entry.pinned === true, instructions: string(chat.system),
    items: joined((Array.isArray(messages) ? messages : []).slice(0, MOST_MESSAGES).map((message) => ({ role: string(message?.role), text: plainText(message?.content) }))),
  };
}

// ---- this page's JSON, and any list of messages ----------------------------------------------------------------------

function fromPage({ title, instructions, metadata, items }) {
  // The server's own wire format; it assigns new ids.
  const known = items.filter((item) => ["message", "function_call", "function_call_output", "reasoning"].includes(item?.type)).map(({ id, status, ...item }) => item);
  return { title: string(title), instructions: string(instructions), pinned: metadata?.pinned === "1", archived: metadata?.archived === "1", items: known };
}

const fromMessages = ({ title, messages }) => ({
  title: string(title), instructions: "", pinned: false, archived: false,
  items: joined(messages.slice(0, MOST_MESSAGES).map((message) => ({ role: string(message?.role), text: plainText(message?.content) }))),
});

const FORMATS = [
  [(chat) => chat.format === "ringside.conversation" && Array.isArray(chat.items), fromPage],
  [(chat) => chat.mapping && typeof chat.mapping === "object", fromChatGpt],
  [(chat) => chat.chat && typeof chat.chat === "object", fromOpenWebUi],
  [(chat) => Array.isArray(chat.messages), fromMessages],
];

// The conversations of a parsed file, in its order; unknown entries are counted in `skipped`.
export function readChats(file) {
  const entries = Array.isArray(file) ? file : [file];
  const chats = [];
  let skipped = 0;
  for (const entry of entries) {
    const format = entry && typeof entry === "object" && FORMATS.find(([fits]) => fits(entry));
    const chat = format ? format[1](entry) : null;
    if (chat?.items.length) chats.push(chat);
    else skipped += 1;
  }
  return { chats, skipped };
}
