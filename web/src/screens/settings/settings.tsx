import { useLocation, useRoute } from "preact-iso/router";
import { can } from "../../app/session";
import { text as shared } from "../../messages/app";
import { text, textOf } from "../../messages/settings";
import { Account } from "./account";
import { Domains } from "./domains";
import { Keys } from "./keys";
import { Members } from "./members";
import { Workspace } from "./workspace";

const parts = { workspace: Workspace, members: Members, keys: Keys, domains: Domains, account: Account };
type Part = keyof typeof parts;

/** may reports whether the user sees a part. */
function may(part: Part): boolean {
  return part !== "members" || can("admin");
}

/** Settings are of the workspace, and of the user's own account. */
export default function Settings() {
  useLocation(); // a tab is another address
  const { params } = useRoute();
  const part = params["part"] ?? "workspace";
  const known = Object.hasOwn(parts, part) ? (part as Part) : undefined;
  const Shown = known && may(known) ? parts[known] : undefined;
  return (
    <>
      <h1>{shared("settings")}</h1>
      <nav class="tabs" aria-label={text("parts")}>
        {(Object.keys(parts) as Part[]).filter(may).map((p) => (
          <a key={p} href={`/console/settings/${p}`} aria-current={p === part ? "page" : undefined}>{textOf(p)}</a>
        ))}
      </nav>
      {Shown ? <Shown /> : <p class="notice">{textOf(known ? "forAdmins" : "noPart")}</p>}
    </>
  );
}
