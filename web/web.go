// Package web serves the console, a web page for the owners of links and for operators.
//
// The source is in src, and its built files are in dist; `make console` builds them. See
// DESIGN.md.
package web

import (
	"bytes"
	"compress/gzip"
	"embed"
	"fmt"
	"io/fs"
	"mime"
	"net/http"
	"path"
	"strconv"
	"strings"
)

//go:embed dist
var dist embed.FS

// Path is the path of the console. All paths below belong to it.
const Path = "/console"

// policy lets pages load from their own host alone, and run no script but the console's.
const policy = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self' data:; connect-src 'self'; " +
	"form-action 'self'; base-uri 'none'; frame-ancestors 'none'"

// file is a file of the console, also compressed.
type file struct {
	contentType   string
	plain, zipped []byte
}

// console serves the files.
type console struct {
	files map[string]file
	page  file
}

// New returns the handler of the console.
func New() (http.Handler, error) {
	c := &console{files: make(map[string]file)}
	entries, err := fs.ReadDir(dist, "dist")
	if err != nil {
		return nil, err
	}
	for _, entry := range entries {
		plain, err := fs.ReadFile(dist, "dist/"+entry.Name())
		if err != nil {
			return nil, err
		}
		f := file{contentType: typeOf(entry.Name()), plain: plain}
		if f.zipped, err = compress(plain); err != nil {
			return nil, fmt.Errorf("compress %s: %w", entry.Name(), err)
		}
		c.files[entry.Name()] = f
	}
	var ok bool
	if c.page, ok = c.files["index.html"]; !ok {
		return nil, fmt.Errorf("the console was not built: run make console")
	}
	return c, nil
}

// typeOf returns the content type of a file. The tables of the machine do not matter.
func typeOf(name string) string {
	switch path.Ext(name) {
	case ".js":
		return "text/javascript; charset=utf-8"
	case ".css":
		return "text/css; charset=utf-8"
	case ".html":
		return "text/html; charset=utf-8"
	case ".svg":
		return "image/svg+xml"
	}
	return mime.TypeByExtension(path.Ext(name))
}

func compress(plain []byte) ([]byte, error) {
	var buf bytes.Buffer
	w, err := gzip.NewWriterLevel(&buf, gzip.BestCompression)
	if err != nil {
		return nil, err
	}
	if _, err := w.Write(plain); err != nil {
		return nil, err
	}
	err = w.Close()
	return buf.Bytes(), err
}

// ServeHTTP answers with a file, or with the page, which shows the screen of any other
// path.
func (c *console) ServeHTTP(w http.ResponseWriter, r *http.Request) {
	h := w.Header()
	if r.Method != http.MethodGet && r.Method != http.MethodHead {
		h.Set("Allow", "GET, HEAD")
		http.Error(w, "the console is only read", http.StatusMethodNotAllowed)
		return
	}
	name := strings.TrimPrefix(strings.TrimPrefix(r.URL.Path, Path), "/")
	f, known := c.files[name]
	switch {
	case known && name != "index.html":
		h.Set("Cache-Control", "public, max-age=31536000, immutable") // the name holds a hash
	case strings.Contains(name, ".") && !strings.HasPrefix(name, "links/"): // a code may have a dot
		http.Error(w, "the console has no such file; reload the page", http.StatusNotFound)
		return
	default:
		f = c.page
		h.Set("Cache-Control", "no-cache")
		h.Set("Content-Security-Policy", policy)
		h.Set("Referrer-Policy", "same-origin")
		h.Set("Cross-Origin-Opener-Policy", "same-origin")
		h.Set("X-Frame-Options", "DENY")
	}
	body := f.plain
	h.Set("Vary", "Accept-Encoding")
	if strings.Contains(r.Header.Get("Accept-Encoding"), "gzip") {
		h.Set("Content-Encoding", "gzip")
		body = f.zipped
	}
	h.Set("Content-Type", f.contentType)
	h.Set("X-Content-Type-Options", "nosniff")
	h.Set("Content-Length", strconv.Itoa(len(body)))
	if r.Method == http.MethodGet {
		_, _ = w.Write(body) // an error means that the browser has left
	}
}
