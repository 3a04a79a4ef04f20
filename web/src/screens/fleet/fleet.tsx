import { text } from "../../messages/app";

/** Fleet is a screen of the console. */
export default function Fleet() {
  return <h1>{text("fleet")}</h1>;
}
