import { text } from "../../messages/app";

/** Link is a screen of the console. */
export default function Link() {
  return <h1>{text("links")}</h1>;
}
