package httpapi_test

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"image"
	"image/color"
	"image/draw"
	"image/png"
	"io"
	"net/http"
	"net/url"
	"regexp"
	"strconv"
	"strings"
	"testing"

	"github.com/makiuchi-d/gozxing"
	"github.com/makiuchi-d/gozxing/qrcode"
	"github.com/stretchr/testify/require"

	"waypost"
)

// scan reads the QR code in a picture that lies on a white page.
func scan(t *testing.T, img image.Image, about ...any) string {
	t.Helper()
	page := image.NewRGBA(image.Rect(0, 0, img.Bounds().Dx()+40, img.Bounds().Dy()+40))
	draw.Draw(page, page.Bounds(), image.White, image.Point{}, draw.Src)
	draw.Draw(page, img.Bounds().Add(image.Pt(20, 20)), img, image.Point{}, draw.Src)
	bitmap, err := gozxing.NewBinaryBitmapFromImage(page)
	require.NoError(t, err)
	found, err := qrcode.NewQRCodeReader().Decode(bitmap, map[gozxing.DecodeHintType]any{gozxing.DecodeHintType_TRY_HARDER: true})
	if err != nil { // the scanner misjudges the angle of some codes that lie straight
		found, err = qrcode.NewQRCodeReader().Decode(bitmap, map[gozxing.DecodeHintType]any{gozxing.DecodeHintType_PURE_BARCODE: true})
	}
	require.NoError(t, err, about...)
	return found.GetText()
}

// fill paints a rectangle of modules, each of moduleSide pixels a side.
func fill(img draw.Image, c color.Color, x, y, width, height int) {
	const moduleSide = 5
	area := image.Rect(x*moduleSide, y*moduleSide, (x+width)*moduleSide, (y+height)*moduleSide)
	draw.Draw(img, area, image.NewUniform(c), image.Point{}, draw.Src)
}

// drawn renders what the SVG of a code consists of: a square, and runs of squares.
func drawn(t *testing.T, svg string) image.Image {
	t.Helper()
	require.Regexp(t, `^<svg xmlns="http://www.w3.org/2000/svg" [^<>]*><path fill="#\w{6}" d="[^"<>]*"/><path fill="#\w{6}" d="[^"<>]*"/></svg>\n$`, svg)
	number := func(text string) int {
		n, err := strconv.Atoi(text)
		require.NoError(t, err)
		return n
	}
	var colors []color.Color
	for _, m := range regexp.MustCompile(`fill="#(..)(..)(..)"`).FindAllStringSubmatch(svg, 2) {
		var rgb [3]uint8
		for i := range rgb {
			n, err := strconv.ParseUint(m[i+1], 16, 8)
			require.NoError(t, err)
			rgb[i] = uint8(n)
		}
		colors = append(colors, color.RGBA{rgb[0], rgb[1], rgb[2], 255})
	}
	side := number(regexp.MustCompile(`viewBox="0 0 (\d+) `).FindStringSubmatch(svg)[1])
	img := image.NewRGBA(image.Rect(0, 0, 5*side, 5*side))
	fill(img, colors[0], 0, 0, side, side)
	for _, m := range regexp.MustCompile(`M(\d+) (\d+)h(\d+)v1h-`).FindAllStringSubmatch(svg, -1) {
		fill(img, colors[1], number(m[1]), number(m[2]), number(m[3]), 1)
	}
	return img
}

// onTerminal renders text as a terminal with light text on a dark background does.
func onTerminal(text string) image.Image {
	lines := strings.Split(strings.TrimSuffix(text, "\n"), "\n")
	img := image.NewRGBA(image.Rect(0, 0, 5*len([]rune(lines[0])), 10*len(lines)))
	for y, line := range lines {
		for x, r := range []rune(line) {
			fill(img, color.Black, x, 2*y, 1, 2)
			if r == '▀' || r == '█' {
				fill(img, color.White, x, 2*y, 1, 1)
			}
			if r == '▄' || r == '█' {
				fill(img, color.White, x, 2*y+1, 1, 1)
			}
		}
	}
	return img
}

func TestQR_AScannerReadsEachPicture(t *testing.T) {
	a := start(t)
	long := waypost.Code(strings.Repeat("long-", 5) + "code")
	a.links.all = []waypost.Link{
		{Code: "lives", Workspace: 1}, {Code: long, Workspace: 1, Host: "go.example.com"},
	}
	for _, l := range a.links.all {
		want := "https://wp.example/" + string(l.Code)
		if l.Host != "" {
			want = "https://" + l.Host + "/" + string(l.Code)
		}
		for _, level := range []string{"L", "M", "Q", "H"} {
			queries := []string{"&size=200"}
			if level == "H" && l.Host == "" {
				queries = []string{"", "&size=64&margin=0", "&size=400&margin=16", "&size=200&dark=1d3557&light=f1faee", "&size=200&dark=767676"}
			}
			for _, query := range queries {
				query = fmt.Sprintf("/api/v1/urls/%s/qr?level=%s%s&domain=%s", l.Code, level, query, l.Host)
				res := a.get(query + "&format=png")
				if strings.Contains(query, "size=64") && res.StatusCode != http.StatusOK {
					requireProblem(t, res, 422, "invalid")
					require.Contains(t, res.text, "must be at least ")
					continue
				}
				require.Equal(t, 200, res.StatusCode, res.text)
				img, err := png.Decode(bytes.NewReader([]byte(res.text)))
				require.NoError(t, err)
				if !strings.Contains(query, "size=64") { // squares of one pixel are too small for this scanner
					require.Equal(t, want, scan(t, img, query))
				}
				require.Equal(t, img.Bounds().Dx(), img.Bounds().Dy())
				res = a.get(query)
				require.Equal(t, "image/svg+xml", res.Header.Get("Content-Type"))
				require.Equal(t, want, scan(t, drawn(t, res.text), query))
			}
			res := a.get(fmt.Sprintf("/api/v1/urls/%s/qr?level=%s&format=pdf&millimetres=30&domain=%s", l.Code, level, l.Host))
			require.Equal(t, "application/pdf", res.Header.Get("Content-Type"))
			require.Contains(t, res.text, "/MediaBox [0 0 85.04 85.04]")
			codes, _ := printed(t, res.text)
			require.Equal(t, []string{want}, codes)
			res = a.get(fmt.Sprintf("/api/v1/urls/%s/qr?level=%s&format=text&domain=%s", l.Code, level, l.Host))
			require.Equal(t, want, scan(t, onTerminal(res.text)))
		}
	}
}

func TestQR_IsAVersionSmallerOnADomainThatIgnoresCase(t *testing.T) {
	a := start(t)
	hr := waypost.Link{Workspace: 1, Host: "go.example"}
	hr.SetCode("Human-Resources", "human-resources")
	other := waypost.Link{Workspace: 1, Host: "go.example", Code: "a_b~café"}
	emoji := waypost.Link{Workspace: 1, Host: "go.example", Code: "x\u24c2"} // has no form without case
	emoji.Aliases = []waypost.Alias{{Host: "go.example", Code: "plain"}}
	hr.Aliases = []waypost.Alias{{Host: "go.example", Code: "y\u24c2"}}
	a.links.all = []waypost.Link{hr, other, emoji}
	squares := func(code string) (n int, text string) {
		res := a.get("/api/v1/urls/" + url.PathEscape(code) + "/qr?margin=0&level=M&domain=go.example")
		require.Equal(t, 200, res.StatusCode, res.text)
		_, err := fmt.Sscanf(regexp.MustCompile(`viewBox="0 0 (\d+) `).FindStringSubmatch(res.text)[1], "%d", &n)
		require.NoError(t, err)
		return n, scan(t, drawn(t, res.text))
	}
	before, text := squares("Human-Resources")
	require.Equal(t, "https://go.example/Human-Resources", text)
	a.links.ignoresCase = true
	after, text := squares("Human-Resources")
	require.Equal(t, "HTTPS://GO.EXAMPLE/HUMAN-RESOURCES", text)
	require.Equal(t, 4, before-after, "a version has four squares more on each side than the version below")
	_, text = squares("a_b~café")
	require.Equal(t, "HTTPS://GO.EXAMPLE/A%5FB%7ECAF%C3%A9", text)
	_, text = squares("x\u24c2")
	require.Equal(t, "https://go.example/x%E2%93%82", text)
	_, text = squares("y\u24c2")
	require.Equal(t, "https://go.example/y%E2%93%82", text, "an alias is written as its own code can be")
	_, text = squares("plain")
	require.Equal(t, "HTTPS://GO.EXAMPLE/PLAIN", text)
}

// printed scans the codes of a PDF, and returns its captions.
func printed(t *testing.T, pdf string) (codes, captions []string) {
	t.Helper()
	for _, m := range regexp.MustCompile(`(?s)stream\n(.*?)\nendstream`).FindAllStringSubmatch(pdf, -1) {
		r, err := zlib.NewReader(strings.NewReader(m[1]))
		require.NoError(t, err)
		page, err := io.ReadAll(r)
		require.NoError(t, err)
		for _, code := range regexp.MustCompile(`(?s)q [^q]*?Q`).FindAllString(string(page), -1) {
			rectangles := regexp.MustCompile(`(\d+) (\d+) (\d+) (\d+) re`).FindAllStringSubmatch(code, -1)
			number := func(i, j int) int {
				n, err := strconv.Atoi(rectangles[i][j])
				require.NoError(t, err)
				return n
			}
			img := image.NewRGBA(image.Rect(0, 0, 5*number(0, 3), 5*number(0, 4)))
			fill(img, color.White, 0, 0, number(0, 3), number(0, 4))
			for i := 1; i < len(rectangles); i++ {
				fill(img, color.Black, number(i, 1), number(i, 2), number(i, 3), number(i, 4))
			}
			codes = append(codes, scan(t, img))
		}
		for _, m := range regexp.MustCompile(`\((.*)\) Tj`).FindAllStringSubmatch(string(page), -1) {
			captions = append(captions, m[1])
		}
	}
	return codes, captions
}

func TestQR_SheetHasAllCodesWithTheirURLs(t *testing.T) {
	a := start(t)
	query, want, captions := "", []string{"https://wp.example/code-0"}, []string{"wp.example/code-0"}
	a.links.all = []waypost.Link{{Code: "code-0", Workspace: 1}}
	for i := 1; i <= 30; i++ {
		l := waypost.Link{Code: waypost.Code(fmt.Sprintf("code-%d", i)), Workspace: 1}
		name, url := string(l.Code), "wp.example/"+string(l.Code)
		if i%2 == 1 {
			l.Host = "go.example.com"
			name, url = "go.example.com/"+string(l.Code), "go.example.com/"+string(l.Code)
		}
		a.links.all = append(a.links.all, l)
		query += "&also=" + name
		want, captions = append(want, "https://"+url), append(captions, url)
	}
	res := a.get("/api/v1/urls/code-0/qr?format=pdf" + query)
	require.Equal(t, 200, res.StatusCode, res.text)
	codes, told := printed(t, res.text)
	require.Equal(t, want, codes)
	require.Equal(t, captions, told)
	require.Contains(t, res.text, "/Count 2 ", "24 codes of 40 mm are on a sheet")
	at := regexp.MustCompile(`startxref\n(\d+)`).FindStringSubmatch(res.text)
	n, err := strconv.Atoi(at[1])
	require.NoError(t, err)
	require.True(t, strings.HasPrefix(res.text[n:], "xref\n"))

	require.Equal(t, 404, a.get("/api/v1/urls/code-0/qr?format=pdf&also=unknown-one").StatusCode)
	require.Contains(t, a.get("/api/v1/urls/code-0/qr?millimetres=25").text, `width="25mm" height="25mm"`)
}

func TestQR_IsKeptByETag(t *testing.T) {
	a := start(t)
	a.links.all = []waypost.Link{{Code: "lives", Workspace: 1}}
	first := a.get("/api/v1/urls/lives/qr")
	require.Equal(t, "private, no-cache", first.Header.Get("Cache-Control"))
	require.Equal(t, `inline; filename="lives.svg"`, first.Header.Get("Content-Disposition"))
	tag := first.Header.Get("ETag")
	again := a.do(call{path: "/api/v1/urls/lives/qr", header: map[string]string{"If-None-Match": tag}})
	require.Equal(t, 304, again.StatusCode)
	require.Empty(t, again.text)
	require.Equal(t, tag, again.Header.Get("ETag"))
	other := a.do(call{path: "/api/v1/urls/lives/qr?size=100", header: map[string]string{"If-None-Match": tag}})
	require.Equal(t, 200, other.StatusCode)
}

func TestQR_RefusesWhatNoCameraCanRead(t *testing.T) {
	a := start(t)
	a.links.all = []waypost.Link{{Code: "a-name-of-thirty-characters-30", Workspace: 1}}
	for query, says := range map[string]string{
		"dark=777777":              "query.dark: must be darker than light, with a contrast ratio of 4.5",
		"dark=FFFFFF&light=000000": "query.light: must be lighter than dark",
		"dark=red":                 "query.dark: expected six hexadecimal digits, such as 1D3557",
		"light=%22/%3E%3C":         "query.light",
		"size=2049":                "query.size",
		"margin=17":                "query.margin",
		"level=m":                  "query.level",
		"format=gif":               "query.format",
		"millimetres=9":            "query.millimetres",
		"millimetres=181":          "query.millimetres",
		"also=lives":               "query.also: needs format=pdf",
		"format=pdf" + strings.Repeat("&also=lives", 100): "query.also",
		"size=64&margin=16": "must be at least 65",
	} {
		res := a.get("/api/v1/urls/a-name-of-thirty-characters-30/qr?" + query)
		requireProblem(t, res, 422, "invalid")
		require.Contains(t, res.text, says, query)
	}
}

func TestQR_RefusesPatterns(t *testing.T) {
	a := start(t)
	a.links.all = []waypost.Link{{Code: "docs/*", Host: "own.example", Workspace: 1}, {Code: "lives", Workspace: 1}}
	requireProblem(t, a.get("/api/v1/urls/docs%2F*/qr?domain=own.example"), 422, "invalid")
	requireProblem(t, a.get("/api/v1/urls/lives/qr?format=pdf&also=own.example/docs/*"), 422, "invalid")
}
