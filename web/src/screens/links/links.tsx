import { text } from "../../messages/app";

/** Links is a screen of the console. */
export default function Links() {
  return <h1>{text("links")}</h1>;
}
