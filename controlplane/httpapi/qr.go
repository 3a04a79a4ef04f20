package httpapi

import (
	"bytes"
	"cmp"
	"context"
	"crypto/sha256"
	"encoding/hex"
	"fmt"
	"image"
	"image/color"
	"image/png"
	"math"
	"mime"
	"net/http"
	"strconv"
	"strings"

	qr "github.com/piglig/go-qr"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
	"waypost/internal/codes"
)

// minContrast is the least contrast ratio (WCAG 2.2, 1 to 21) between the dark and the
// light squares of a QR code, so that cameras distinguish them in bad light, too.
const minContrast = 4.5

type qrInput struct {
	Code string `path:"code" doc:"The link's short code."`
	inDomain
	Format string `query:"format" enum:"svg,png,pdf,text" default:"svg" doc:"svg, png, pdf, or text: blocks of Unicode for a terminal with light text on a dark background."`
	Size   int    `query:"size" minimum:"64" maximum:"2048" default:"512" doc:"Width and height in pixels, the margin included. Text and PDF have none."`

	Millimetres int `query:"millimetres" minimum:"10" maximum:"180" doc:"Width and height on paper, the margin included, for svg and pdf. Default: 40 for pdf; svg has pixels."`

	Margin int    `query:"margin" minimum:"0" maximum:"16" default:"4" doc:"Light squares around the code. Scanners need four, unless the surroundings are light."`
	Level  string `query:"level" enum:"L,M,Q,H" default:"M" doc:"Share of the code that may be damaged: 7, 15, 25 or 30 %."`
	Dark   string `query:"dark" pattern:"^[0-9A-Fa-f]{6}$" patternDescription:"six hexadecimal digits, such as 1D3557" default:"000000" doc:"Colour of the dark squares: red, green and blue in hexadecimal digits."`
	Light  string `query:"light" pattern:"^[0-9A-Fa-f]{6}$" patternDescription:"six hexadecimal digits, such as 1D3557" default:"FFFFFF" doc:"Colour of the light squares and the margin. The contrast ratio to the dark ones must be 4.5 or more."`

	Also []string `query:"also" maxItems:"99" minLength:"1" maxLength:"400" example:"go.example.com/spring" doc:"With pdf: another link, by its code, behind the host of its domain and a slash unless that is the shared default domain. Given several times: several links. The document consists of sheets of paper (A4) with all codes and their short URLs."`

	NoneMatch string `header:"If-None-Match" list:"true" maxLength:"4096" doc:"ETags of pictures that the client has: 304 when the picture is one of them."`
}

// picture is a QR code as a file.
type picture struct {
	contentType, name, tag string
	body                   []byte
	same                   bool // the client has the picture
}

var qrLevels = map[string]qr.Ecc{"L": qr.Low, "M": qr.Medium, "Q": qr.Quartile, "H": qr.High}

func registerQR(rt *router, a *linksAPI) {
	headers := map[string]header{
		"ETag": textHeader("Names this picture, for If-None-Match."), "Content-Disposition": textHeader("The name of the file."),
	}
	handle(rt, operation{
		id: "get-qr", method: http.MethodGet, path: api.PathLinks + "/{code}/qr", summary: "Draw the QR code of a link's short URL",
		scopes: []controlplane.Scope{controlplane.ScopeLinksRead}, problems: []int{http.StatusNotFound, http.StatusGone},
		answers: map[int]answer{
			http.StatusOK: {Description: "The picture", Headers: headers, Content: map[string]media{
				"image/svg+xml": {textSchema}, "image/png": {textSchema}, "application/pdf": {textSchema}, "text/plain": {textSchema},
			}},
			http.StatusNotModified: {Description: "The client has the picture", Headers: map[string]header{"ETag": headers["ETag"]}},
		},
	}, a.qr)
}

func (a *linksAPI) qr(ctx context.Context, in *qrInput) (*picture, error) {
	dark, light := colorOf(in.Dark), colorOf(in.Light)
	if luminance(light) < luminance(dark) || (luminance(light)+0.05)/(luminance(dark)+0.05) < minContrast {
		at, rule := "query.light", "lighter than dark"
		if strings.EqualFold(in.Light, "FFFFFF") {
			at, rule = "query.dark", "darker than light"
		}
		return nil, invalid(at, fmt.Sprintf("must be %s, with a contrast ratio of %v or more", rule, minContrast))
	}
	if len(in.Also) > 0 && in.Format != "pdf" {
		return nil, invalid("query.also", "needs format=pdf")
	}
	all, err := a.qrCodes(ctx, in)
	if err != nil {
		return nil, err
	}
	code := all[0].code
	if squares := code.Size() + 2*in.Margin; in.Format != "pdf" && in.Size < squares {
		return nil, invalid("query.size", "must be at least "+strconv.Itoa(squares)+" for this code and margin")
	}
	p := &picture{name: in.Code + "." + in.Format}
	switch in.Format {
	case "svg":
		p.contentType, p.body = "image/svg+xml", svgOf(code, in)
	case "png":
		p.contentType = "image/png"
		if p.body, err = pngOf(code, in.Size, in.Margin, color.Palette{light, dark}); err != nil {
			return nil, err
		}
	case "pdf":
		in.Millimetres = cmp.Or(in.Millimetres, 40)
		p.contentType, p.body = "application/pdf", pdfOf(all, in)
	default:
		p.contentType, p.name, p.body = "text/plain; charset=utf-8", in.Code+".txt", blocksOf(code, in.Margin)
	}
	sum := sha256.Sum256(p.body)
	p.tag = `"` + hex.EncodeToString(sum[:12]) + `"`
	if p.same, err = noneMatch(in.NoneMatch, p.tag); err != nil {
		return nil, err
	}
	return p, nil
}

// qrCodes returns the codes of all links of a request.
func (a *linksAPI) qrCodes(ctx context.Context, in *qrInput) (all []labelled, err error) {
	for i, name := range append([]string{in.Code}, in.Also...) {
		domain, code := in.Domain, name
		if i > 0 {
			host, rest, found := strings.Cut(name, "/")
			if domain, code = host, rest; !found {
				domain, code = "", name
			}
		}
		if code = string(codes.NormalForm(code)); !waypost.ValidCode(code) {
			return nil, waypost.ErrNoLink
		}
		l, err := a.links.Find(ctx, actorFrom(ctx), domain, code)
		if err != nil {
			return nil, err
		}
		if waypost.IsPattern(code) {
			return nil, waypost.Errorf(waypost.EInvalid, "a pattern leads from many addresses: make QR codes of links")
		}
		url := a.askedURL(&l, domain, code)
		text := url
		switch ignores, err := a.links.IgnoresCase(ctx, actorFrom(ctx), domain); {
		case err != nil:
			return nil, err
		case ignores && codes.Fold(codes.NormalForm(strings.ToUpper(code))) == codes.Fold(waypost.Code(code)): // of the link, or of an alias
			text = capitals(url)
		}
		drawn, err := qr.EncodeText(text, qrLevels[in.Level])
		if err != nil {
			return nil, waypost.WrapError(waypost.EInvalid, "the short URL is too long for a QR code of this level", err)
		}
		all = append(all, labelled{drawn, url})
	}
	return all, nil
}

// capitals returns a URL of a domain that ignores case, in the letters of which QR codes
// are smallest: capital ones, without the signs that QR codes have no number for.
func capitals(url string) string {
	return strings.NewReplacer("_", "%5F", "~", "%7E").Replace(strings.ToUpper(url))
}

// respond lets browsers keep the picture, and ask each time whether they still may.
func (p *picture) respond(w http.ResponseWriter, r *http.Request) {
	if p.same {
		notModified(p.tag).respond(w, r)
		return
	}
	h := w.Header()
	h.Set("Cache-Control", "private, no-cache")
	h.Set("Content-Disposition", inlineAs(p.name))
	h.Set("ETag", p.tag)
	writeBody(w, http.StatusOK, p.contentType, p.body)
}

// inlineAs returns the Content-Disposition of a file that is shown.
func inlineAs(name string) string {
	name = strings.ReplaceAll(name, "/", "-")
	if waypost.Printable(name) {
		return `inline; filename="` + name + `"`
	}
	return mime.FormatMediaType("inline", map[string]string{"filename": name})
}

// svgOf draws each row's runs of dark squares as rectangles of one path.
func svgOf(code *qr.QrCode, in *qrInput) []byte {
	var b bytes.Buffer
	size := strconv.Itoa(in.Size)
	if in.Millimetres != 0 {
		size = strconv.Itoa(in.Millimetres) + "mm"
	}
	fmt.Fprintf(&b, `<svg xmlns="http://www.w3.org/2000/svg" width="%s" height="%[1]s" viewBox="0 0 %d %[2]d" shape-rendering="crispEdges">`+
		`<path fill="#%[3]s" d="M0 0h%[2]dv%[2]dH0z"/><path fill="#%[4]s" d="`, size, code.Size()+2*in.Margin, in.Light, in.Dark)
	forRuns(code, func(x, y, n int) { fmt.Fprintf(&b, "M%d %dh%dv1h-%[3]dz", x+in.Margin, y+in.Margin, n) })
	b.WriteString(`"/></svg>` + "\n")
	return b.Bytes()
}

// forRuns calls draw for each run of n dark squares of a row, which begins at x and y.
func forRuns(code *qr.QrCode, draw func(x, y, n int)) {
	for y := range code.Size() {
		for x := 0; x < code.Size(); x++ {
			start := x
			for x < code.Size() && code.Module(x, y) {
				x++
			}
			if n := x - start; n > 0 {
				draw(start, y, n)
			}
		}
	}
}

// pngOf draws squares of whole pixels. Pixels that are left over widen the margin.
func pngOf(code *qr.QrCode, size, margin int, colors color.Palette) ([]byte, error) {
	scale := size / (code.Size() + 2*margin)
	edge := (size - scale*code.Size()) / 2
	img := image.NewPaletted(image.Rect(0, 0, size, size), colors)
	for y := range scale * code.Size() {
		for x := range scale * code.Size() {
			if code.Module(x/scale, y/scale) {
				img.SetColorIndex(edge+x, edge+y, 1)
			}
		}
	}
	var b bytes.Buffer
	err := png.Encode(&b, img)
	return b.Bytes(), err
}

// blocksOf draws two rows of squares in a line of text, the light ones as blocks.
func blocksOf(code *qr.QrCode, margin int) []byte {
	var b strings.Builder
	end := code.Size() + margin
	for y := -margin; y < end; y += 2 {
		for x := -margin; x < end; x++ {
			upper, lower := 1, 2 // bits of light squares
			if code.Module(x, y) {
				upper = 0
			}
			if code.Module(x, y+1) || y+1 == end {
				lower = 0
			}
			b.WriteString([]string{" ", "▀", "▄", "█"}[upper|lower])
		}
		b.WriteByte('\n')
	}
	return []byte(b.String())
}

// colorOf reads six hexadecimal digits.
func colorOf(text string) color.RGBA {
	n, _ := strconv.ParseUint(text, 16, 32) // the pattern of the parameter lets nothing else pass
	return color.RGBA{uint8(n >> 16), uint8(n >> 8), uint8(n), 0xff}
}

// luminance is the relative luminance of a colour, 0 to 1, as WCAG 2.2 defines it.
func luminance(c color.RGBA) float64 {
	part := func(v uint8) float64 {
		s := float64(v) / 255
		if s <= 0.04045 {
			return s / 12.92
		}
		return math.Pow((s+0.055)/1.055, 2.4)
	}
	return 0.2126*part(c.R) + 0.7152*part(c.G) + 0.0722*part(c.B)
}
