// Rows of a file as links, in batches, without ever holding more than a slice of the file.
import type { Schemas } from "../../app/api";
import { text as ofLink } from "../../messages/link";
import { text, textOf } from "../../messages/transfer";
import { rounded } from "../link/change";
import { firstMoment } from "../../ui/day";
import { csv } from "../../ui/csv";
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
  source: Source;
}

/** A row as the file has it: its cells, or its text. */
export type Source = readonly string[] | string;

export interface Batch {
  number: number;
  rows: { row: number; link: NewLink; source: Source }[];
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
  /** Lines end with CR alone. */
  cr: boolean;
  /** Time zone of days. */
  zone: string;
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

/** Column, or field, of the reason in a file of refused rows. */
const refusedColumn = "refused";
/** Columns of exports, also of Shlink and YOURLS, that say nothing about a new link. */
const exported = ["short_code", "click_count", "created_at", "aliases", refusedColumn];
const exportedCSV = ["timestamp", "ip", "clicks", "shorturl", "createdat", "visits", ""];
const exportedJSON = ["id", "short_url", "last_accessed_at", "updated_at", "blocked"];
/** Names of other shorteners. */
const others: Record<string, Field> = {
  url: "original_url", long_url: "original_url", longurl: "original_url", keyword: "custom_code", shortcode: "custom_code",
};
/** Fields that only JSON has. */
const jsonOnly: readonly string[] = ["created_by", "dedupe", "expires_in_seconds", "expires_in_hours"];

function fieldOf(name: string, json: boolean): Field | "ignored" | undefined {
  const plain = name.trim().toLowerCase();
  const field = json ? name : Object.hasOwn(others, plain) ? others[plain]! : plain;
  if (exported.includes(field) || (json ? exportedJSON : exportedCSV).includes(field)) return "ignored";
  return Object.hasOwn(kinds, field) && (json || !jsonOnly.includes(field)) ? (field as Field) : undefined;
}

class RowFault extends Error {
  constructor(readonly field: string, reason: string) {
    super(reason);
  }
}

const moment = /^(\d{4}-\d\d-\d\d)([Tt]\d\d:\d\d:\d\d(\.\d+)?([Zz]|[+-]\d\d:\d\d))?$/;

/** timeOf reads a time, or a day, which stands for its first moment, or for its end. */
function timeOf(field: Field, value: string, zone: string): string {
  const found = moment.exec(value);
  const day = new Date(value.slice(0, 10));
  if (!found || isNaN(+day) || !day.toISOString().startsWith(value.slice(0, 10))) throw new RowFault(field, textOf("notTime"));
  if (found[2]) return value;
  if (field === "expires_at" && value < "9999-12-31") day.setUTCDate(day.getUTCDate() + 1);
  return firstMoment(day.toISOString().slice(0, 10), zone);
}

/** fromCell reads a cell of CSV. Nothing: the field is left out. */
function fromCell(field: Field, cell: string, zone: string): unknown {
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
      // A space before a tag belongs to it only within quotes, and so does a semicolon.
      const lines = reader.read(cell.replace(/("(?:[^"]|"")*")|;/g, (_, q) => (q as string) ?? ",").replace(/("(?:[^"]|"")*")|(^|,)[^\S\n]+/g, "$1$2"), true);
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
      return cell === "" ? undefined : timeOf(field, cell, zone);
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

/** Rows yields rows with their links, or why they have none. */
interface Rows {
  read: (piece: string, last: boolean) => { row: number; source: Source; make: () => NewLink }[];
  broken: () => { row: number; reason: string } | undefined;
}

const faults = {
  bareQuote: () => text("bareQuote"), tabQuote: () => text("tabQuote"), afterQuote: () => text("afterQuote"), nul: () => text("nul"), encoding: () => text("encoding"),
};

function csvSource(shape: Shape): Rows {
  const reader = new CsvReader(shape.separator);
  let begun = false;
  return {
    read: (piece, last) => {
      const rows = reader.read(piece, last);
      if (namesSeparator(rows[0])) rows.shift();
      if (!begun && rows.length > 0) begun = Boolean(rows.shift());
      return rows.map((r) => ({ row: r.row, source: r.cells ?? r.text!, make: () => linkOfCells(r, shape) }));
    },
    broken: () => reader.broken && { row: reader.broken.row, reason: reader.broken.why === "long" ? text("longRow", { n: longest }) : text("openQuote") },
  };
}

/** Whether a row is the first one of some files, which names the separator to a spreadsheet. */
const namesSeparator = (r: CsvRow | undefined) => r?.row === 1 && /^sep=/i.test(r.cells?.[0] ?? "");

function linkOfCells(r: CsvRow, { columns, zone }: Shape): NewLink {
  if (!r.cells) throw new RowFault("", faults[r.fault!]());
  const cells = [...r.cells];
  // Spreadsheets write columns that were once in use, which have no names.
  while (cells.length > columns.length && !cells.at(-1)!.trim()) cells.pop();
  while (cells.length < columns.length && !columns[cells.length]!.name.trim()) cells.push("");
  if (cells.length !== columns.length || columns.some((c, i) => !c.name.trim() && cells[i]!.trim())) {
    throw new RowFault("", text("cells", { n: r.cells.length, expected: columns.filter((c) => c.name.trim()).length }));
  }
  const link: Record<string, unknown> = {};
  const has = (...names: string[]) => columns.some(({ name }) => names.includes(name.trim().toLowerCase()));
  const shlink = has("shortcode") && has("createdat", "shorturl", "visits"); // its tags are a|b
  columns.forEach(({ field }, i) => {
    if (!field || field === "ignored") return;
    const cell = plainCell(cells[i]!);
    const value = shlink && field === "tags" ? (cell === "" ? undefined : cell.split("|")) : fromCell(field, cell, zone);
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

function jsonSource(zone: string): Rows {
  let rest = "";
  let row = 0;
  let broken: { row: number; reason: string } | undefined;
  return {
    read: (piece, last) => {
      if (broken) return [];
      const lines = (rest + piece).split("\n");
      rest = last ? "" : lines.pop()!;
      if (rest.length > longest) broken = { row: row + lines.length + 1, reason: text("longRow", { n: longest }) };
      return lines.map((line) => ({ row: ++row, line: line.trim() })).filter((l) => l.line !== "").map((l) => ({ row: l.row, source: l.line, make: () => linkOfLine(l.line, zone) }));
    },
    broken: () => broken,
  };
}

function linkOfLine(line: string, zone: string): NewLink {
  if (line.includes("\ufffd")) throw new RowFault("", text("encoding"));
  const value = json(line);
  if (!isObject(value)) throw new RowFault("", text("notObject"));
  // A line of another server's redirects that no link can say.
  if (typeof value[refusedColumn] === "string" && Object.keys(value).length === 1) throw new RowFault("", value[refusedColumn]);
  const link: Record<string, unknown> = {};
  for (const [name, v] of Object.entries(value)) {
    const field = fieldOf(name, true);
    if (!field) throw new RowFault(name, text("unknownField"));
    // Times left out of exports are null, as is metadata.
    if (field === "ignored" || v === null) continue;
    if (!fits(field, v)) throw new RowFault(name, textOf(kinds[field] === "time" ? "notTime" : "wrongKind"));
    link[field] = kinds[field] === "time" ? timeOf(field, v as string, zone) : exact(name, v);
  }
  if (link["active"] === true) delete link["active"];
  return withPassword(link);
}

/** columnsOf reads the header of CSV, or says why it cannot be used. */
function columnsOf(header: CsvRow): { columns: Shape["columns"]; fault?: string } {
  if (!header.cells) return { columns: [], fault: text("headerBroken", { reason: faults[header.fault!]() }) };
  const columns = header.cells.map((name) => ({ name, field: fieldOf(name, false) }));
  const unknown = columns.filter((c) => !c.field).map((c) => c.name).join(", ");
  if (unknown) return { columns, fault: text("unknown", { names: unknown }) };
  const fields = columns.map((c) => c.field).filter((f) => f && f !== "ignored");
  const twice = fields.find((f, i) => fields.indexOf(f) !== i);
  if (twice) return { columns, fault: text("columnTwice", { name: twice }) };
  if (!fields.includes("original_url")) return { columns, fault: text("noURL") };
  return { columns };
}

/** refusedHeader begins the file of refused rows, which a spreadsheet can mend and an import reads. */
export function refusedHeader({ format, separator, columns }: Shape): string {
  return format === "csv" ? "\ufeff" + csv([[...columns.map((c) => c.name).filter((name) => name !== refusedColumn), refusedColumn]], "\r\n", separator) : "";
}

/** refusedRow writes a row of that file: what the file had, and the reason. */
export function refusedRow({ format, separator, columns }: Shape, { row, field, reason, source }: Refusal): string {
  const why = [`${text("row")} ${row}:`, field, reason].filter(Boolean).join(" ");
  if (format === "jsonl") return `${String(source).replace(/^\{(?!\s*\})/, `{${JSON.stringify(refusedColumn)}:${JSON.stringify(why)},`)}\n`;
  const cells = typeof source === "string" ? [source] : source.map(plainCell);
  const known = columns.map((_, i) => cells[i] ?? "").filter((_, i) => columns[i]!.name !== refusedColumn);
  return csv([[...known, why, ...cells.slice(columns.length)]], "\r\n", separator);
}

/** shapeOf reads the beginning of a file. Days in it are those of a time zone. */
export async function shapeOf(file: File, zone = "UTC"): Promise<Shape> {
  let start = new TextDecoder().decode(await file.slice(0, slice).arrayBuffer());
  const cr = !start.includes("\n");
  if (cr) start = start.replaceAll("\r", "\n");
  const first = /^\s*(.*)/.exec(start)![1]!;
  const none: Batch = { number: 0, rows: [], bad: [], last: 0, read: 0 };
  const plain: Shape = { format: "csv", separator: ",", cr, zone, columns: [], preview: none };
  if (first === "") return { ...plain, fault: text("emptyFile") };
  if (first.startsWith("{")) {
    const names = new Set<string>();
    for (const line of start.split("\n").slice(0, 20)) {
      const value = json(line);
      if (isObject(value)) Object.keys(value).forEach((n) => names.add(n));
    }
    const shape: Shape = { ...plain, format: "jsonl", columns: [...names].map((name) => ({ name, field: fieldOf(name, true) })) };
    shape.preview = (await batches(file, shape, 10).next()).value ?? none;
    return shape;
  }
  const separator = /^"?sep=(.)"?$/i.exec(first)?.[1] ?? [",", ";", "\t"].find((s) => first.includes(s)) ?? ",";
  const [row, next] = new CsvReader(separator).read(start, file.size <= slice);
  const header = namesSeparator(row) ? next : row;
  const { columns, fault } = header ? columnsOf(header) : { columns: [], fault: text("headerBroken", { reason: text("openQuote") }) };
  const shape: Shape = { ...plain, separator, columns };
  if (fault) return { ...shape, fault };
  shape.preview = (await batches(file, shape, 10).next()).value ?? none;
  return shape;
}

/** batches reads a file. The same file always has the same batches, which have their numbers from 0. */
export async function* batches(file: Blob, shape: Shape, most = batchRows): AsyncGenerator<Batch, undefined> {
  const source = shape.format === "csv" ? csvSource(shape) : jsonSource(shape.zone);
  const decoder = new TextDecoder();
  let batch: Batch = { number: 0, rows: [], bad: [], last: 0, read: 0 };
  let size = 0;
  let passwords = 0;
  for (let at = 0; at < file.size; at += slice) {
    const end = at + slice >= file.size;
    let piece = decoder.decode(await file.slice(at, at + slice).arrayBuffer(), { stream: !end });
    if (shape.cr) piece = piece.replaceAll("\r", "\n");
    batch.read = Math.min(file.size, at + slice);
    for (const { row, source: from, make } of source.read(piece, end)) {
      try {
        const link = make();
        size += JSON.stringify(link).length;
        if (link.password) passwords++;
        batch.rows.push({ row, link, source: from });
      } catch (e) {
        if (!(e instanceof RowFault)) throw e;
        batch.bad.push({ row, field: e.field, reason: e.message, url: "", source: from });
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
