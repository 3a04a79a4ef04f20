import { text } from "../../messages/app";

/** Settings is a screen of the console. */
export default function Settings() {
  return <h1>{text("settings")}</h1>;
}
