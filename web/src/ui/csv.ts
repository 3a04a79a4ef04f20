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

/** downloadCSV saves a table as a file of the user. */
export function downloadCSV(name: string, rows: readonly (readonly Cell[])[]): void {
  download(`${name.replace(/[^\p{L}\p{N}._-]+/gu, "-")}.csv`, new Blob([csv(rows)], { type: "text/csv;charset=utf-8" }));
}
