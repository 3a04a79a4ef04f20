import { text } from "../../messages/app";

/** Audit is a screen of the console. */
export default function Audit() {
  return <h1>{text("audit")}</h1>;
}
