package api

// RedirectFile is a file with the redirects of a site, as another server has them.
type RedirectFile struct {
	Format string `json:"format" enum:"netlify,cloudflare-pages,cloudflare-bulk,nginx,apache" doc:"netlify and cloudflare-pages: a file _redirects; they differ in the status of lines without one. cloudflare-bulk: the CSV of bulk redirects. nginx: map, rewrite, and return in a location. apache: Redirect and RedirectMatch."`
	Site   string `json:"site,omitzero" maxLength:"2048" example:"https://www.example.com" doc:"The site of targets without a host. Without it such lines are refused."`
	Text   string `json:"text" doc:"The file, of at most 8 MiB."`
}

// RedirectLines are the links that a file with redirects says.
type RedirectLines struct {
	Links string   `json:"links" doc:"JSON lines, one for each line of the file: a new link, nothing, or an object with the reason why no link can say it, in its field refused."`
	Notes []string `json:"notes" doc:"What is true of many lines."`
}
