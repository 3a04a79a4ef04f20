import type { ComponentChildren } from "preact";
import { text } from "../messages/app";

/** A heading of a column. A list of one is that of a column of numbers, and null that of a
 * column of buttons. */
export type Heading = string | readonly [string] | null;

/** Table is a table with a name, which scrolls on its own where it is too wide. */
export function Table({ title, heads, look, box = "", children }: {
  title: string; heads: readonly Heading[];
  /** Classes of the table, and of the box in which it scrolls. */
  look?: string; box?: string;
  children: ComponentChildren;
}) {
  return (
    <div class={`scroll ${box}`} tabIndex={0} role="group" aria-label={title}>
      <table class={look}>
        <caption class="offscreen">{title}</caption>
        <thead>
          <tr>
            {heads.map((h, i) => <th key={i} scope="col" dir="auto" class={Array.isArray(h) ? "num" : ""}>{h ?? <span class="offscreen">{text("more")}</span>}</th>)}
          </tr>
        </thead>
        <tbody>{children}</tbody>
      </table>
    </div>
  );
}
