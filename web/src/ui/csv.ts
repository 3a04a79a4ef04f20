import { signal } from "@preact/signals";

/** One cell: a number, or a text that may come from a visitor. */
export type Cell = string | number | boolean;

/** A cell that a spreadsheet could take for a formula, also behind apostrophes, as the
 * exports of the API have it. */
export const formula = /^'*([\t\r\n]|[ \u00a0\u3000]*[=+\-@＝＋－＠])/;

/** quoted writes one cell by RFC 4180. */
export function quoted(cell: string): string {
  return /[",;\t\r\n]|^\s/.test(cell) ? `"${cell.replaceAll('"', '""')}"` : cell;
}

/** csv writes a table by RFC 4180. A text that a spreadsheet could take for a formula has an
 * apostrophe before it. */
export function csv(rows: readonly (readonly Cell[])[], end = "\r\n", separator = ","): string {
  return rows.map((row) => row.map((c) => quoted(typeof c === "string" && formula.test(c) ? `'${c}` : String(c))).join(separator) + end).join("");
}

/** download saves content as a file of the user. */
export function download(name: string, content: Blob): void {
  const url = URL.createObjectURL(content);
  const a = document.createElement("a");
  a.href = url;
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 60_000); // some browsers read it later
}

/** Whether CSV is for spreadsheets that write decimals with a comma: with semicolons. */
export const semicolons = signal(localStorage.getItem("waypost.csv") === "semicolon");

/** setSemicolons keeps the choice in this browser. */
export function setSemicolons(on: boolean): void {
  semicolons.value = on;
  localStorage.setItem("waypost.csv", on ? "semicolon" : "comma");
}

/** fileName makes a file name of a text. */
export const fileName = (name: string) => name.replace(/[^\p{L}\p{N}._-]+/gu, "-");

/** downloadCSV saves a table as a file of the user. */
export function downloadCSV(name: string, rows: readonly (readonly Cell[])[]): void {
  const text = semicolons.value
    ? `\ufeff${csv(rows.map((row) => row.map((c) => (typeof c === "number" ? String(c).replace(".", ",") : c))), "\r\n", ";")}`
    : csv(rows);
  download(`${fileName(name)}.csv`, new Blob([text], { type: "text/csv;charset=utf-8" }));
}
