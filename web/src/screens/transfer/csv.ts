import { formula } from "../../ui/csv";

// CSV (RFC 4180), read piece by piece. It is judged as the command waypost judges it: a
// quote within an unquoted cell, or text behind a closing quote, spoils one row. Between tabs
// each quote does, because only the command knows which ones belong to the text.

/** A row: its cells, or why it has none. Rows are counted as spreadsheets count them: the
 * header is row 1, empty lines count, and a cell of several lines is in one row. */
export interface CsvRow {
  row: number;
  cells?: string[];
  fault?: Fault;
  /** The text of a row without cells. */
  text?: string;
}

type Fault = "bareQuote" | "afterQuote" | "tabQuote" | "nul" | "encoding";

/** Why nothing behind a row can be read. */
export interface Broken {
  row: number;
  why: "openQuote" | "long";
}

/** Characters of one row at most, so that a stray quote does not read a whole file. */
export const longest = 256 * 1024;

export class CsvReader {
  /** Set once the file cannot be read on. */
  broken: Broken | undefined;
  private text = "";
  private at = 0;
  private row = 0;
  private readonly special: RegExp;

  constructor(private readonly separator: string) {
    this.special = new RegExp(`["\n${separator}]`, "g");
  }

  /** read returns the rows that are complete with one more piece of the file. */
  read(piece: string, last: boolean): CsvRow[] {
    this.text = this.text.slice(this.at) + piece;
    this.at = 0;
    const rows: CsvRow[] = [];
    while (!this.broken && this.at < this.text.length) {
      const start = this.at;
      const row = this.next(last);
      if (row) {
        this.row++;
        if (row !== "empty") rows.push({ row: this.row, ...row });
        continue;
      }
      this.at = start;
      if (last) this.broken = { row: this.row + 1, why: "openQuote" };
      else if (this.text.length - start > longest) this.broken = { row: this.row + 1, why: "long" };
      break;
    }
    return rows;
  }

  /** next returns the next row, or nothing when its end has not been read. */
  private next(last: boolean): Omit<CsvRow, "row"> | "empty" | undefined {
    const cells: string[] = [];
    const start = this.at;
    for (;;) {
      const quoted = this.text[this.at] === '"' && this.separator !== "\t";
      const cell = quoted ? this.quoted(last) : this.plain(last);
      if (cell === undefined) return undefined;
      if (typeof cell !== "string") return this.skip(last) ? { ...cell, text: this.text.slice(start, this.at).trim() } : undefined;
      cells.push(cell);
      const end = this.text[this.at];
      this.at++;
      if (end === this.separator) {
        // A separator at the very end of the file has an empty cell behind it.
        if (this.at < this.text.length || last) continue;
        return undefined;
      }
      break; // at a line feed, or at the end of the file
    }
    if (this.at - start > longest) {
      this.broken = { row: this.row + 1, why: "long" };
      return "empty";
    }
    if (cells.every((c) => !c.trim())) return "empty";
    const text = cells.join("\n");
    const fault = text.includes("\ufffd") ? "encoding" : text.includes("\0") ? "nul" : undefined;
    return fault ? { fault, text } : { cells };
  }

  /** plain reads a cell without quotes, up to what ends it. */
  private plain(last: boolean): string | { fault: Fault } | undefined {
    this.special.lastIndex = this.at;
    const hit = this.special.exec(this.text);
    if (!hit && !last) return undefined;
    if (hit?.[0] === '"') return { fault: this.separator === "\t" ? "tabQuote" : "bareQuote" };
    const end = hit ? hit.index : this.text.length;
    const cell = this.text.slice(this.at, end);
    this.at = end;
    return hit?.[0] !== this.separator && cell.endsWith("\r") ? cell.slice(0, -1) : cell;
  }

  /** quoted reads a cell in quotes, up to what follows them. */
  private quoted(last: boolean): string | { fault: Fault } | undefined {
    let cell = "";
    for (let from = this.at + 1; ;) {
      const quote = this.text.indexOf('"', from);
      if (quote < 0 || (quote + 1 === this.text.length && !last)) return undefined;
      if (this.text[quote + 1] === '"') {
        cell += this.text.slice(from, quote + 1);
        from = quote + 2;
        continue;
      }
      cell += this.text.slice(from, quote);
      let end = quote + 1;
      if (this.text[end] === "\r") {
        if (end + 1 === this.text.length && !last) return undefined;
        if (end + 1 === this.text.length || this.text[end + 1] === "\n") end++;
      }
      const next = this.text[end];
      this.at = end; // a cell of several lines is spoiled as a whole
      if (next !== undefined && next !== "\n" && next !== this.separator) return { fault: "afterQuote" };
      return cell;
    }
  }

  /** skip goes on behind the end of the line, and reports whether it was there. */
  private skip(last: boolean): boolean {
    const end = this.text.indexOf("\n", this.at);
    if (end < 0 && !last) return false;
    this.at = end < 0 ? this.text.length : end + 1;
    return true;
  }
}

/** plainCell takes the apostrophe away with which exports keep spreadsheets from running a cell. */
export function plainCell(cell: string): string {
  return cell.startsWith("'") && formula.test(cell) ? cell.slice(1) : cell;
}
