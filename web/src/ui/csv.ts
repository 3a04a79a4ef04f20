/** One cell: a number, or a text that may come from a visitor. */
export type Cell = string | number;

/** csv writes a table by RFC 4180. A text that a spreadsheet could take for a formula has an
 * apostrophe before it. */
export function csv(rows: readonly (readonly Cell[])[]): string {
  return rows.map((row) => row.map(cell).join(",") + "\r\n").join("");
}

function cell(value: Cell): string {
  if (typeof value === "number") return String(value);
  const safe = /^[=+\-@\t\r]/.test(value) ? `'${value}` : value;
  return /[",\r\n]/.test(safe) ? `"${safe.replaceAll('"', '""')}"` : safe;
}

/** download saves content as a file of the user. */
export function download(name: string, content: Blob): void {
  const url = URL.createObjectURL(content);
  const a = document.createElement("a");
  a.href = url;
  a.download = name;
  a.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

/** downloadCSV saves a table as a file of the user. */
export function downloadCSV(name: string, rows: readonly (readonly Cell[])[]): void {
  download(`${name.replace(/[^\p{L}\p{N}._-]+/gu, "-")}.csv`, new Blob([csv(rows)], { type: "text/csv;charset=utf-8" }));
}
