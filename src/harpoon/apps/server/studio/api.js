/** The requests of Studio, all of them to its own service. */

import { fetchFromService, UNREACHABLE } from "./page_host.js";
import { wait } from "./latest_request.js";
import { currentToken, newToken } from "./token.js";

export const CSV = "text/csv";
export const PARQUET = "application/vnd.apache.parquet";
const JSON_TYPE = "application/json";
const EVENTS = "text/event-stream";
const BUSY = [429, 503];
const MAX_TRIES = 8;

/** An error of the server, whose message can be shown. */
export class Refusal extends Error {
  constructor(kind, message, status = 0) {
    super(message);
    this.kind = kind;
    this.status = status;
  }
}

/** The model, its columns and limits. */
export const schema = async () => (await send("schema", { method: "GET" })).json();

/** A condition as text and as controls, and the part that no control can show. */
export const condition = async (body, signal) => (await post("condition", body, { signal })).json();

/** The effect of a condition on every column; `progress` is called with the rows that are done. */
export const profile = (body, options) => stream("profile", body, options);

/** The probability of a condition, and what to relax. */
export const feasibility = async (body, signal) => (await post("feasibility", body, { signal })).json();

/** Sampled rows. */
export const sample = async (body, signal) => (await post("sample", body, { signal })).json();

/** Sampled rows as a file. */
export const sampleFile = async (body, accept, signal) => (await post("sample", body, { accept, signal })).blob();

/** A completed table, with the uncertainty of each filled cell. */
export const impute = (csv, query, options) => stream(`impute?${new URLSearchParams(query)}`, csv, options);

/** The same table as a file. */
export const imputeFile = async (csv, query, accept, signal) =>
  (await post(`impute?${new URLSearchParams(query)}`, csv, { accept, signal })).blob();

/** Send an object as JSON, a file or a text as CSV. */
function post(path, body, { accept = JSON_TYPE, signal } = {}) {
  const table = typeof body === "string" || body instanceof Blob;
  const headers = { Accept: accept, "Content-Type": table ? CSV : JSON_TYPE };
  return send(path, { method: "POST", headers, body: table ? body : JSON.stringify(body), signal });
}

/** Send a request. Asks for a token if one is needed, and tries again if the server is busy. */
async function send(path, options, tries = 1) {
  const token = currentToken();
  const headers = { ...options.headers, ...(token ? { Authorization: `Bearer ${token}` } : {}) };
  const response = await reach(path, { ...options, headers });
  if (response.ok) return response;
  const refusal = await toRefusal(response);
  if (response.status === 401) {
    await newToken(token, refusal.message);
    return send(path, options, tries);
  }
  if (BUSY.includes(response.status) && tries < MAX_TRIES) {
    await wait(1000 * Math.min(Number(response.headers.get("Retry-After")) || 1, 10));
    options.signal?.throwIfAborted();
    return send(path, options, tries + 1);
  }
  throw refusal;
}

async function reach(path, options) {
  try {
    return await fetchFromService(path, options);
  } catch (error) {
    if (error.name === "AbortError") throw error;
    throw new Refusal("Unreachable", UNREACHABLE);
  }
}

async function toRefusal(response) {
  const body = await response.json().catch(() => ({}));
  return asRefusal(body, response.status);
}

function asRefusal(body, status) {
  const { kind = "Error", message = `The server answered with status ${status} and no reason.` } =
    body.error ?? {};
  return new Refusal(kind, message, status);
}

/** Send a request that reports its progress, and return its result. */
async function stream(path, body, { signal, progress }) {
  const response = await post(path, body, { accept: EVENTS, signal });
  for await (const { event, data } of events(response.body)) {
    if (event === "progress") progress?.(data);
    else if (event === "error") throw asRefusal(data, response.status);
    else if (event === "result") return data;
  }
  throw new Refusal("Unreachable", "The server stopped before its answer was complete. Try again.");
}

/** Server-sent events; each ends with an empty line. */
async function* events(body) {
  let text = "";
  for await (const part of parts(body.pipeThrough(new TextDecoderStream()))) {
    const blocks = (text + part).replaceAll("\r\n", "\n").split("\n\n");
    text = blocks.pop();
    for (const block of blocks) if (block.includes("data:")) yield eventOf(block);
  }
}

/** Iterate over a stream; not every browser can do so by itself. */
async function* parts(body) {
  const reader = body.getReader();
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
