// The server over HTTP: conversations and models. Every failure is an ApiError with the server's message.
import { apiKey } from "./store.js";
import { t } from "./strings.js";

export class ApiError extends Error {
  constructor(status, error = {}, retryAfterMs = 0) {
    super(error.message || (status ? t("The server answered {status}.", { status }) : t("The server cannot be reached.")));
    this.status = status; // 0: no response
    this.code = error.code || "";
    this.retryAfterMs = error.retry_after_ms || retryAfterMs;
  }
}

async function request(method, path, { body, type, keepalive = false, signal } = {}) {
  const headers = {};
  const key = apiKey.load();
  if (key) headers.Authorization = `Bearer ${key}`;
  if (body !== undefined) headers["Content-Type"] = type || "application/json";
  let response;
  try {
    response = await fetch(path, { method, headers, body: body === undefined || type ? body : JSON.stringify(body), cache: "no-store", keepalive, signal });
  } catch {
    throw new ApiError(0);
  }
  if (response.ok) return response;
  const answer = await response.json().catch(() => ({}));
  throw new ApiError(response.status, answer.error, Number(response.headers.get("retry-after-ms") || 0));
}

const json = async (method, path, options) => (await request(method, path, options)).json();
const one = (id) => `/v1/conversations/${encodeURIComponent(id)}`;

// The served model comes first.
export const getModels = async () => (await json("GET", "/v1/models")).data;
export const getModel = async () => (await getModels())[0];
// An answer outside every conversation; nothing is stored.
export const ask = (input, options) => json("POST", "/v1/responses", { body: { input, store: false, ...options } });
// Tokens of a first message with this text.
export const countTokens = async (input, instructions) =>
  (await json("POST", "/v1/responses/input_tokens", { body: { input, ...(instructions && { instructions }) } })).input_tokens;
export const getConversation = (id) => json("GET", one(id));
export const createConversation = (metadata, items) => json("POST", "/v1/conversations", { body: { metadata, ...(items && { items }) } });
export const addItems = (id, items) => json("POST", `${one(id)}/items`, { body: { items } });
export const setMetadata = (id, metadata) => json("POST", one(id), { body: { metadata } });
export const deleteConversation = (id) => json("DELETE", one(id));
// Survives the end of the page.
export const deleteSoon = (id) => request("DELETE", one(id), { keepalive: true }).catch(() => {});
export const getMemory = (id) => json("GET", `${one(id)}/memory`);
export const exportConversation = async (id) => (await request("GET", `${one(id)}/export`)).blob();
export const searchMessages = (query, after, signal) =>
  json("GET", `/v1/conversations/search?limit=20&query=${encodeURIComponent(query)}${after && `&after=${encodeURIComponent(after)}`}`, { signal });
export const listShares = async (id) => (await json("GET", `${one(id)}/shares`)).data;
export const createShare = (id, seconds) => json("POST", `${one(id)}/shares`, { body: seconds ? { expires_in: seconds } : {} });
export const revokeShare = (id, share) => json("DELETE", `${one(id)}/shares/${encodeURIComponent(share)}`);
export const importConversation = (bytes) =>
  json("POST", "/v1/conversations/import", { body: bytes, type: "application/octet-stream" });

// Pages of a list, in order.
async function* pages(path) {
  for (let after = ""; ; ) {
    const page = await json("GET", path + after);
    yield page.data;
    if (!page.has_more) return;
    after = `&after=${encodeURIComponent(page.last_id)}`;
  }
}
export const listConversations = () => pages("/v1/conversations?limit=100");
export const CALL_END = "\n````";
// Display text of an item. A tool call is a fenced block "call NAME" (text/code.js), left open while the call is
// incomplete; a tool result is shown verbatim.
export function textOf(item) {
  if (item.type === "function_call") return `\`\`\`\`call ${item.name}\n${item.arguments}` + (item.status === "in_progress" ? "" : CALL_END);
  if (item.type === "function_call_output") return typeof item.output === "string" ? item.output : item.output.map((part) => part.text || "").join("");
  return (item.content ?? []).map((part) => part.text || "").join("");
}
const imagesOf = (item) => (Array.isArray(item.content) ? item.content : Array.isArray(item.output) ? item.output : [])
  .filter((part) => part.type === "input_image" && part.image_url).map((part) => part.image_url);
const reasoningOf = (item) =>
  item.type === "reasoning" ? [...(item.summary ?? []), ...(item.content ?? [])].map((part) => part.text || "").join("") : "";
const ROLES = { function_call: "assistant", function_call_output: "tool" };
// The message that reasoning or a tool call belongs to.
export const wholeId = (id) => id.replace(/^fc_(.*)_\d+$/, "msg_$1").replace(/^rs_/, "msg_");
// Items as the server counts them: an answer's reasoning, message and tool calls are one item; the calls begin at
// `callsAt` of its text.
export function wholeItems(items) {
  const whole = [];
  const names = new Map(); // of the tools, by the ids of their calls
  for (const item of items) {
    if (item.type === "function_call") names.set(item.call_id, item.name);
    const call = item.type === "function_call";
    const reasoning = reasoningOf(item);
    const id = call || reasoning ? wholeId(item.id) : item.id;
    const role = reasoning ? "assistant" : ROLES[item.type] ?? item.role;
    const text = item.type === "reasoning" ? "" : textOf(item);
    const complete = item.status !== "incomplete";
    const last = whole.at(-1);
    if (last?.id !== id) whole.push({ id, role, text, images: imagesOf(item), reasoning, complete, callsAt: call ? 0 : undefined, tool: names.get(item.call_id) });
    else if (call) Object.assign(last, { callsAt: last.callsAt ?? last.text.length, text: (last.text && last.text + "\n\n") + text, complete });
    else Object.assign(last, { text: last.text + text, complete });
  }
  return whole;
}
async function rawItems(path) {
  const items = [];
  for await (const page of pages(`${path}?order=asc&limit=100`)) items.push(...page);
  return items;
}
const allItems = async (path) => wholeItems(await rawItems(path));
export const getRawItems = (id) => rawItems(`${one(id)}/items`);
export const getItems = (id) => allItems(`${one(id)}/items`);
export const getResponse = (id) => json("GET", `/v1/responses/${encodeURIComponent(id)}`);
// The input items of an answer, running or finished. While it runs, no other list contains its question.
export const getInputItems = (response) => allItems(`/v1/responses/${encodeURIComponent(response)}/input_items`);
