// The looks of the lines of a chart, and their legend in its picture.

/** The look of a line: the main one, a second one next to it, the main one of the time
 * before, which is thin and dashed, or one of ten, 1 to 10. */
export type Kind = "main" | "second" | "before" | number;

/** lookOf returns the token of a line's colour, and whether the line is dashed. */
export function lookOf(kind: Kind): [token: string, dashed: boolean] {
  const n = typeof kind === "number" ? kind : { main: 1, second: 2, before: 0 }[kind];
  return [`--chart-${n && ((n - 1) % 5) + 1}`, n === 0 || n > 5];
}

/** rowsOf places things of some widths in rows: how far to the right, and in which row. */
export function rowsOf(widths: readonly number[], wide: number): [left: number, row: number][] {
  let left = 0;
  let row = 0;
  return widths.map((w) => {
    if (left > 0 && left + w > wide) {
      left = 0;
      row++;
    }
    left += w;
    return [left - w, row];
  });
}
