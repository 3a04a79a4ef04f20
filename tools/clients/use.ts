import createClient from "openapi-fetch";
import type { paths } from "./api";

const client = createClient<paths>({ baseUrl: "http://127.0.0.1:8080" });

export async function firstTarget(): Promise<string | undefined> {
  const made = await client.POST("/api/v1/urls", { body: { original_url: "https://example.com/", tags: ["a"] } });
  if (made.error !== undefined) {
    return made.error.detail;
  }
  const expires: string | null | undefined = made.data?.expires_at;
  const { data } = await client.GET("/api/v1/urls", { params: { query: { limit: 1, tag: ["a"] } } });
  return expires ?? data?.urls[0]?.original_url;
}
