// Rows of a file as links, in batches, without ever holding more than a slice of the file.
import type { Schemas } from "../../app/api";
import { text as ofLink } from "../../messages/link";
import { text, textOf } from "../../messages/transfer";
import { rounded } from "../link/change";
import { kinds as columns } from "../link/fields";
import { CsvReader, longest, plainCell, type CsvRow } from "./csv";

export type NewLink = Schemas["NewLink"];

export const largest = 100e6; // bytes of a file
const slice = 128 * 1024; // bytes read at a time, so that no task is long
const batchRows = 500;
const batchPasswords = 10; // as many as the API takes in a request
const batchSize = 4e6; // characters of one request

export interface Refusal {
  row: number;
  field: string;
  reason: string;
  url: string;
}

export interface Batch {
  number: number;
  rows: { row: number; link: NewLink }[];
  /** Rows that are not sent. */
  bad: Refusal[];
  /** The last row of both kinds. */
  last: number;
  /** Bytes of the file that were read. */
  read: number;
  /** Why nothing behind it can be read. */
  broken?: { row: number; reason: string };
}

/** What a file holds, by its beginning. */
export interface Shape {
  format: "csv" | "jsonl";
  separator: string;
  /** The columns of CSV, or the names in the first objects. */
  columns: { name: string; field: Field | "ignored" | undefined }[];
  preview: Batch;
  /** Why nothing can be imported. */
  fault?: string;
}

const kinds = {
  ...columns, created_by: "text", dedupe: "bool", expires_in_seconds: "number", expires_in_hours: "number", has_password: "lost",
} as const;
type Field = keyof typeof kinds;

/** Columns of exports, also of Shlink and YOURLS, that say nothing about a new link. */
const exported = [
  "id", "short_code", "short_url", "click_count", "last_accessed_at", "created_at", "updated_at",
  "timestamp", "ip", "clicks", "shorturl", "createdat", "visits",
];
/** Names of other shorteners. */
const others: Record<string, Field> = {
  url: "original_url", long_url: "original_url", longurl: "original_url", keyword: "custom_code", shortcode: "custom_code",
};
/** Fields that only JSON has. */
const jsonOnly: readonly string[] = ["created_by", "dedupe", "expires_in_seconds", "expires_in_hours"];

function fieldOf(name: string, json: boolean): Field | "ignored" | undefined {
  const plain = name.trim().toLowerCase();
  const field = json ? name : Object.hasOwn(others, plain) ? others[plain]! : plain;
  if (exported.includes(field)) return "ignored";
  return Object.hasOwn(kinds, field) && (json || !jsonOnly.includes(field)) ? (field as Field) : undefined;
}

class RowFault extends Error {
  constructor(readonly field: string, reason: string) {
    super(reason);
  }
}

const moment = /^(\d{4}-\d\d-\d\d)([Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d))?$/;

/** timeOf reads a time, or a day, which stands for its first moment in UTC. */
function timeOf(field: Field, value: string): string {
  const found = moment.exec(value);
  if (!found) throw new RowFault(field, textOf("notTime"));
  return found[2] ? value : `${value}T00:00:00Z`;
}

/** fromCell reads a cell of CSV. Nothing: the field is left out. */
function fromCell(field: Field, cell: string): unknown {
  switch (kinds[field]) {
    case "number":
      if (cell === "") return undefined;
      if (!/^[+-]?\d+$/.test(cell)) throw new RowFault(field, text("notNumber"));
      return Number(cell);
    case "bool": {
      const value = cell.toLowerCase();
      if (value !== "true" && value !== "false" && value !== "") throw new RowFault(field, text("notBoolean"));
      if (field === "active") return value === "false" ? false : undefined;
      return value === "true" || undefined;
    }
    case "tags": {
      if (cell.trim() === "") return undefined;
      const reader = new CsvReader(",");
      // A space before a tag belongs to it only within quotes.
      const lines = reader.read(cell.replace(/("(?:[^"]|"")*")|(^|,)[^\S\n]+/g, "$1$2"), true);
      const tags = lines[0]?.cells;
      if (!tags || lines.length > 1 || reader.broken) throw new RowFault(field, text("notTags"));
      return tags;
    }
    case "object": {
      if (cell === "" || cell === "null") return undefined;
      const value = json(cell);
      if (!isObject(value)) throw new RowFault(field, text("notObject"));
      return exact(field, value);
    }
    case "list": {
      if (cell === "" || cell === "null") return undefined;
      const value = json(cell);
      if (!Array.isArray(value)) throw new RowFault(field, text("notList"));
      return value;
    }
    case "time":
      return cell === "" ? undefined : timeOf(field, cell);
    case "lost":
      return cell.toLowerCase() === "true" || undefined;
    default:
      return cell === "" && field !== "original_url" ? undefined : cell;
  }
}

function json(source: string): unknown {
  try {
    return JSON.parse(source) as unknown;
  } catch {
    return undefined;
  }
}

function isObject(value: unknown): value is Record<string, unknown> {
  return typeof value === "object" && value !== null && !Array.isArray(value);
}

/** exact refuses a value that has lost digits. */
function exact(field: string, value: unknown): unknown {
  if (rounded(value)) throw new RowFault(field, ofLink("rounded"));
  return value;
}

/** fits reports whether a value of JSON has the type of its field. */
function fits(field: Field, value: unknown): boolean {
  switch (kinds[field]) {
    case "number": return Number.isInteger(value);
    case "bool": return typeof value === "boolean";
    case "tags": return Array.isArray(value) && value.every((t) => typeof t === "string");
    case "object": return isObject(value);
    case "list": return Array.isArray(value);
    case "lost": return typeof value === "boolean";
    default: return typeof value === "string";
  }
}

/** Source yields rows with their links, or why they have none. */
interface Source {
  read: (piece: string, last: boolean) => { row: number; make: () => NewLink }[];
  broken: () => { row: number; reason: string } | undefined;
}

const faults = {
  bareQuote: () => text("bareQuote"), afterQuote: () => text("afterQuote"), nul: () => text("nul"), encoding: () => text("encoding"),
};

function csvSource(separator: string, columns: (header: CsvRow) => Shape["columns"]): Source {
  const reader = new CsvReader(separator);
  let known: Shape["columns"] | undefined;
  return {
    read: (piece, last) => {
      const rows = reader.read(piece, last);
      if (!known && rows.length > 0) known = columns(rows.shift()!);
      return rows.map((r) => ({ row: r.row, make: () => linkOfCells(r, known!) }));
    },
    broken: () => reader.broken && { row: reader.broken.row, reason: reader.broken.why === "long" ? text("longRow", { n: longest }) : text("openQuote") },
  };
}

function linkOfCells(r: CsvRow, columns: Shape["columns"]): NewLink {
  if (!r.cells) throw new RowFault("", faults[r.fault!]());
  if (r.cells.length !== columns.length) throw new RowFault("", text("cells", { n: r.cells.length, expected: columns.length }));
  const link: Record<string, unknown> = {};
  const has = (...names: string[]) => columns.some(({ name }) => names.includes(name.trim().toLowerCase()));
  const shlink = has("shortcode") && has("createdat", "shorturl", "visits"); // its tags are a|b
  columns.forEach(({ field }, i) => {
    if (!field || field === "ignored") return;
    const cell = plainCell(r.cells![i]!);
    const value = shlink && field === "tags" ? (cell === "" ? undefined : cell.split("|")) : fromCell(field, cell);
    if (value !== undefined) link[field] = value;
  });
  return withPassword(link);
}

/** withPassword refuses a link that had a password and would be made without one. */
function withPassword(link: Record<string, unknown>): NewLink {
  if (link["has_password"] === true && !link["password"]) throw new RowFault("has_password", text("passwordLost"));
  delete link["has_password"];
  return link as NewLink;
}

function jsonSource(): Source {
  let rest = "";
  let row = 0;
  let broken: { row: number; reason: string } | undefined;
  return {
    read: (piece, last) => {
      if (broken) return [];
      const lines = (rest + piece).split("\n");
      rest = last ? "" : lines.pop()!;
      if (rest.length > longest) broken = { row: row + lines.length + 1, reason: text("longRow", { n: longest }) };
      return lines.map((line) => ({ row: ++row, line: line.trim() })).filter((l) => l.line !== "").map((l) => ({ row: l.row, make: () => linkOfLine(l.line) }));
    },
    broken: () => broken,
  };
}

function linkOfLine(line: string): NewLink {
  if (line.includes("\ufffd")) throw new RowFault("", text("encoding"));
  const value = json(line);
  if (!isObject(value)) throw new RowFault("", text("notObject"));
  const link: Record<string, unknown> = {};
  for (const [name, v] of Object.entries(value)) {
    const field = fieldOf(name, true);
    // Times left out of exports are null, as is metadata.
    if (!field || field === "ignored" || v === null) continue;
    if (!fits(field, v)) throw new RowFault(name, textOf(kinds[field] === "time" ? "notTime" : "wrongKind"));
    link[field] = kinds[field] === "time" ? timeOf(field, v as string) : exact(name, v);
  }
  if (link["active"] === true) delete link["active"];
  return withPassword(link);
}

/** columnsOf reads the header of CSV, or says why it cannot be used. */
function columnsOf(header: CsvRow): { columns: Shape["columns"]; fault?: string } {
  if (!header.cells) return { columns: [], fault: text("headerBroken", { reason: faults[header.fault!]() }) };
  const columns = header.cells.map((name) => ({ name, field: fieldOf(name, false) }));
  const fields = columns.map((c) => c.field).filter((f) => f && f !== "ignored");
  const twice = fields.find((f, i) => fields.indexOf(f) !== i);
  if (twice) return { columns, fault: text("columnTwice", { name: twice }) };
  if (!fields.includes("original_url")) return { columns, fault: text("noURL") };
  return { columns };
}

/** shapeOf reads the beginning of a file. */
export async function shapeOf(file: File): Promise<Shape> {
  const start = new TextDecoder().decode(await file.slice(0, slice).arrayBuffer());
  const first = /^\s*(.*)/.exec(start)![1]!;
  const none: Batch = { number: 0, rows: [], bad: [], last: 0, read: 0 };
  if (first === "") return { format: "csv", separator: ",", columns: [], preview: none, fault: text("emptyFile") };
  if (first.startsWith("{")) {
    const names = new Set<string>();
    for (const line of start.split("\n").slice(0, 20)) {
      const value = json(line);
      if (isObject(value)) Object.keys(value).forEach((n) => names.add(n));
    }
    const shape: Shape = { format: "jsonl", separator: "", preview: none, columns: [...names].map((name) => ({ name, field: fieldOf(name, true) })) };
    shape.preview = (await batches(file, shape, 10).next()).value ?? none;
    return shape;
  }
  const separator = [",", ";", "\t"].find((s) => first.includes(s)) ?? ",";
  const reader = new CsvReader(separator);
  const header = reader.read(start, file.size <= slice)[0];
  const { columns, fault } = header ? columnsOf(header) : { columns: [], fault: text("headerBroken", { reason: text("openQuote") }) };
  const shape: Shape = { format: "csv", separator, columns, preview: none };
  if (fault) return { ...shape, fault };
  shape.preview = (await batches(file, shape, 10).next()).value ?? none;
  return shape;
}

/** batches reads a file. The same file always has the same batches, which have their numbers from 0. */
export async function* batches(file: Blob, shape: Shape, most = batchRows): AsyncGenerator<Batch, undefined> {
  const source = shape.format === "csv" ? csvSource(shape.separator, () => shape.columns) : jsonSource();
  const decoder = new TextDecoder();
  let batch: Batch = { number: 0, rows: [], bad: [], last: 0, read: 0 };
  let size = 0;
  let passwords = 0;
  for (let at = 0; at < file.size; at += slice) {
    const piece = decoder.decode(await file.slice(at, at + slice).arrayBuffer(), { stream: true });
    const end = at + slice >= file.size;
    batch.read = Math.min(file.size, at + slice);
    for (const { row, make } of source.read(end ? piece + decoder.decode() : piece, end)) {
      try {
        const link = make();
        size += JSON.stringify(link).length;
        if (link.password) passwords++;
        batch.rows.push({ row, link });
      } catch (e) {
        if (!(e instanceof RowFault)) throw e;
        batch.bad.push({ row, field: e.field, reason: e.message, url: "" });
      }
      batch.last = row;
      if (batch.rows.length + batch.bad.length < most && size < batchSize && passwords < batchPasswords) continue;
      yield batch;
      batch = { number: batch.number + 1, rows: [], bad: [], last: row, read: batch.read };
      size = passwords = 0;
    }
    const broken = source.broken();
    if (broken) {
      batch.broken = { row: broken.row, reason: broken.reason };
      break;
    }
  }
  if (batch.rows.length + batch.bad.length > 0 || batch.broken) yield batch;
  return undefined;
}

/** fingerprint names a file by its content: the SHA-256 of the SHA-256 of its pieces, because
 * browsers hash in the thread of the page and would stand still over the whole file. */
export async function fingerprint(file: Blob): Promise<string> {
  const sums: number[] = [];
  for (let at = 0; at < file.size; at += slice) sums.push(...(await sum(await file.slice(at, at + slice).arrayBuffer())));
  return [...(await sum(new Uint8Array(sums).buffer))].map((b) => b.toString(16).padStart(2, "0")).join("");
}

/** sum hashes a piece. Pages without TLS have no SHA-256; an import with a false name would
 * be refused by the API, because an idempotency key belongs to one body. */
async function sum(piece: ArrayBuffer): Promise<Uint8Array> {
  if (globalThis.crypto?.subtle) return new Uint8Array(await crypto.subtle.digest("SHA-256", piece));
  let a = 0x811c9dc5;
  let b = 0x9e3779b9;
  for (const byte of new Uint8Array(piece)) {
    a = Math.imul(a ^ byte, 0x01000193);
    b = Math.imul(b ^ byte, 0x85ebca6b) ^ (b >>> 13);
  }
  return new Uint8Array(new Uint32Array([piece.byteLength, a, b]).buffer);
}
