import { text } from "../../messages/app";

/** Transfer is a screen of the console. */
export default function Transfer() {
  return <h1>{text("importExport")}</h1>;
}
