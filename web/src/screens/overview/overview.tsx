import { text } from "../../messages/app";

/** Overview is a screen of the console. */
export default function Overview() {
  return <h1>{text("overview")}</h1>;
}
