/** everyPage reads all pages of a list. */
export async function everyPage<P extends { next_cursor: string }>(load: (cursor?: string) => Promise<P>): Promise<P[]> {
  const pages: P[] = [];
  do pages.push(await load(pages.at(-1)?.next_cursor));
  while (pages.at(-1)!.next_cursor);
  return pages;
}
