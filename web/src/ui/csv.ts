import { csv, download } from "./download";

/** downloadCSV offers a table as a file, whose name is made of letters that all systems allow. */
export function downloadCSV(name: string, rows: readonly (readonly (string | number)[])[]): void {
  download(`${name.replace(/[^\p{L}\p{N}._-]+/gu, "-")}.csv`, "text/csv;charset=utf-8", csv(rows));
}
