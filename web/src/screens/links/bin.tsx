import { useRef } from "preact/hooks";
import { text as common } from "../../messages/app";
import { text, textOf } from "../../messages/links";
import { Bulk, Failed, RestoreButton, useChanges } from "./bulk";
import { Pending, useSelection } from "./links";
import { useLinks } from "./list";
import { LinkTable } from "./table";

/** Bin is the list of deleted links that can be restored. */
export default function Bin() {
  const list = useLinks("", () => ({ deleted: "true" }));
  const [selected, select, clear] = useSelection("");
  const row = useRef(-1);
  const changes = useChanges(list, clear, row);
  return (
    <>
      <div class="head"><h1>{common("bin")}</h1></div>
      <p class="quiet">{text("emptyBinHint")}</p>
      <Failed of={changes} row={row} />
      <p role="status" class="quiet">{list.rows.length > 0 && textOf(list.next ? "shownSome" : "shownAll", { n: list.rows.length })}</p>
      <Pending list={list} version={list.version} />
      {list.empty && <section class="empty"><h2>{text("emptyBin")}</h2><p><a href="/console/links">{common("toLinks")}</a></p></section>}
      {list.rows.length > 0 && (
        <LinkTable bin list={list} version={list.version} selected={selected} select={select} at={row} shared="" action={(link) => <RestoreButton of={changes} link={link} />} />
      )}
      <Bulk bin of={changes} list={list} version={list.version} selected={selected} clear={clear} row={row} shared="" />
    </>
  );
}
