/** The questions that the Studio asks of its server, and of nobody else. */

import { rest } from "./latest.js";
import { currentToken, newToken } from "./token.js";

export const CSV = "text/csv";
export const PARQUET = "application/vnd.apache.parquet";
const JSON_TYPE = "application/json";
const EVENTS = "text/event-stream";
const BUSY = [429, 503];
const MOST_TRIES = 8;

/** A refusal that can be shown: its message is a sentence. */
export class Refusal extends Error {
  constructor(kind, message, status = 0) {
    super(message);
    this.kind = kind;
    this.status = status;
  }
}

/** What is known of the model and its columns. */
export const schema = async () => (await sent("schema", { method: "GET" })).json();

/** A condition as text, as controls, and what only text can say of it. */
export const condition = async (body, signal) => (await posted("condition", body, { signal })).json();

/** What a condition does to every column; `progress` hears how many rows are drawn. */
export const profile = (body, options) => streamed("profile", body, options);

/** Why a condition is hardly met, and what to relax. */
export const feasibility = async (body, signal) => (await posted("feasibility", body, { signal })).json();

/** Drawn rows. */
export const sample = async (body, signal) => (await posted("sample", body, { signal })).json();

/** Drawn rows as a file. */
export const sampleFile = async (body, accept, signal) => (await posted("sample", body, { accept, signal })).blob();

/** A table with its holes filled, and how sure each cell is. */
export const impute = (csv, query, options) => streamed(`impute?${new URLSearchParams(query)}`, csv, options);

/** The same table as a file. */
export const imputeFile = async (csv, query, accept, signal) =>
  (await posted(`impute?${new URLSearchParams(query)}`, csv, { accept, signal })).blob();

/** A plain object goes as JSON, a file or text as CSV. */
function posted(path, body, { accept = JSON_TYPE, signal } = {}) {
  const table = typeof body === "string" || body instanceof Blob;
  const headers = { Accept: accept, "Content-Type": table ? CSV : JSON_TYPE };
  return sent(path, { method: "POST", headers, body: table ? body : JSON.stringify(body), signal });
}

/** A response that is not an error. Asks for a token where one is wanted, and again where the server is busy. */
async function sent(path, options, tries = 1) {
  const token = currentToken();
  const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  const response = await reached(path, { ...options, headers });
  if (response.ok) return response;
  const refusal = await refusalOf(response);
  if (response.status === 401) {
    await newToken(token, refusal.message);
    return sent(path, options, tries);
  }
  if (BUSY.includes(response.status) && tries < MOST_TRIES) {
    await rest(1000 * Math.min(Number(response.headers.get("Retry-After")) || 1, 10));
    options.signal?.throwIfAborted();
    return sent(path, options, tries + 1);
  }
  throw refusal;
}

async function reached(path, options) {
  try {
    return await fetch(new URL(path, document.baseURI), options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal("Unreachable", "The server does not answer. Look whether harpoon serve is still running.");
  }
}

async function refusalOf(response) {
  const body = await response.json().catch(() => ({}));
  return asRefusal(body, response.status);
}

function asRefusal(body, status) {
  const { kind = "Error", message = `The server refused, with status ${status}, and did not say why.` } =
    body.error ?? {};
  return new Refusal(kind, message, status);
}

/** The result of a question that takes long enough to count along. */
async function streamed(path, body, { signal, progress }) {
  const response = await posted(path, body, { accept: EVENTS, signal });
  for await (const { event, data } of events(response.body)) {
    if (event === "progress") progress?.(data);
    else if (event === "error") throw asRefusal(data, response.status);
    else if (event === "result") return data;
  }
  throw new Refusal("Unreachable", "The server ended before its answer was complete. Ask again.");
}

/** Server-sent events as they arrive: each ends with an empty line. */
async function* events(stream) {
  let text = "";
  for await (const piece of pieces(stream.pipeThrough(new TextDecoderStream()))) {
    const blocks = (text + piece).replaceAll("\r\n", "\n").split("\n\n");
    text = blocks.pop();
    for (const block of blocks) if (block.includes("data:")) yield eventOf(block);
  }
}

/** A stream as something to loop over, which not every browser makes of it by itself. */
async function* pieces(stream) {
  const reader = stream.getReader();
  for (let part = await reader.read(); !part.done; part = await reader.read()) yield part.value;
}

function eventOf(block) {
  const lines = block
    .split("\n")
    .map((line) => line.match(/^(\w+): ?(.*)$/))
    .filter(Boolean);
  const all = (field) =>
    lines
      .filter(([, name]) => name === field)
      .map(([, , value]) => value)
      .join("\n");
  return { event: all("event") || "message", data: JSON.parse(all("data")) };
}
