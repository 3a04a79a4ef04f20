import { text } from "../../messages/app";

/** Ranges is a screen of the console. */
export default function Ranges() {
  return <h1>{text("ranges")}</h1>;
}
