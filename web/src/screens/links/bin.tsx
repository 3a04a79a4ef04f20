import { text } from "../../messages/app";

/** Bin is a screen of the console. */
export default function Bin() {
  return <h1>{text("bin")}</h1>;
}
