import { text } from "../../messages/app";

/** Invitation is a screen of the console. */
export default function Invitation() {
  return <h1>{text("setPassword")}</h1>;
}
