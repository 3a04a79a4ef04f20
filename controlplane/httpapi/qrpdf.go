package httpapi

import (
	"bytes"
	"compress/zlib"
	"fmt"
	"image/color"
	"strings"

	qr "github.com/piglig/go-qr"
)

// Lengths of a sheet of QR codes, in millimetres: A4 with a margin, and the space between
// two codes, in which the caption stands.
const (
	pointsPerMM = 72 / 25.4
	sheetWidth  = 210.0
	sheetHeight = 297.0
	sheetMargin = 10.0
	sheetGap    = 8.0
)

// labelled is a QR code with the short URL that it holds.
type labelled struct {
	code *qr.QrCode
	url  string
}

// pdfOf draws one code on a page of its size, or several codes on sheets, with their
// short URLs under them (ISO 32000-1).
func pdfOf(all []labelled, in *qrInput) []byte {
	side := float64(in.Millimetres)
	if len(all) == 1 {
		return writePDF(side, side, []string{drawPDF(all[0].code, in, 0, 0)})
	}
	columns := int((sheetWidth - 2*sheetMargin + sheetGap) / (side + sheetGap))
	rows := int((sheetHeight - 2*sheetMargin + sheetGap) / (side + sheetGap))
	var pages []string
	for len(all) > 0 {
		var page strings.Builder
		n := min(columns*rows, len(all))
		for i, l := range all[:n] {
			x := sheetMargin + float64(i%columns)*(side+sheetGap)
			y := sheetHeight - sheetMargin - side - float64(i/columns)*(side+sheetGap)
			page.WriteString(drawPDF(l.code, in, x, y))
			text := strings.TrimPrefix(strings.TrimPrefix(l.url, "https://"), "http://")
			// A letter of Helvetica is hardly wider than 0.6 of its size.
			size := min(8, (side+sheetGap-2)*pointsPerMM/(0.6*float64(len(text))))
			fmt.Fprintf(&page, "BT 0 g /F1 %.2f Tf %.2f %.2f Td (%s) Tj ET\n", size, x*pointsPerMM, (y-3.5)*pointsPerMM,
				strings.NewReplacer(`\`, `\\`, "(", `\(`, ")", `\)`).Replace(text))
		}
		pages, all = append(pages, page.String()), all[n:]
	}
	return writePDF(sheetWidth, sheetHeight, pages)
}

// drawPDF draws a code with its lower left corner at a place of the page, in millimetres.
// Each row's runs of dark squares are rectangles, as in SVG.
func drawPDF(code *qr.QrCode, in *qrInput, x, y float64) string {
	var b strings.Builder
	squares := code.Size() + 2*in.Margin
	side := float64(in.Millimetres) * pointsPerMM
	scale := side / float64(squares)
	fmt.Fprintf(&b, "q %.5f 0 0 %.5f %.2f %.2f cm\n%s rg 0 0 %d %[6]d re f\n%s rg\n",
		scale, -scale, x*pointsPerMM, y*pointsPerMM+side, rgbOf(colorOf(in.Light)), squares, rgbOf(colorOf(in.Dark)))
	forRuns(code, func(x, y, n int) { fmt.Fprintf(&b, "%d %d %d 1 re\n", x+in.Margin, y+in.Margin, n) })
	b.WriteString("f Q\n")
	return b.String()
}

func rgbOf(c color.RGBA) string {
	return fmt.Sprintf("%.4f %.4f %.4f", float64(c.R)/255, float64(c.G)/255, float64(c.B)/255)
}

// writePDF writes a document with pages of one size, in millimetres.
func writePDF(width, height float64, pages []string) []byte {
	var b bytes.Buffer
	b.WriteString("%PDF-1.4\n%\xE2\xE3\xCF\xD3\n")
	var offsets []int
	object := func(format string, args ...any) {
		offsets = append(offsets, b.Len())
		fmt.Fprintf(&b, "%d 0 obj\n"+format+"\nendobj\n", append([]any{len(offsets)}, args...)...)
	}
	var kids strings.Builder
	for i := range pages {
		fmt.Fprintf(&kids, "%d 0 R ", 4+2*i)
	}
	object("<< /Type /Catalog /Pages 2 0 R >>")
	object("<< /Type /Pages /Kids [%s] /Count %d >>", kids.String(), len(pages))
	object("<< /Type /Font /Subtype /Type1 /BaseFont /Helvetica >>")
	for _, content := range pages {
		var packed bytes.Buffer
		w := zlib.NewWriter(&packed)
		_, _ = w.Write([]byte(content)) // a buffer takes everything
		_ = w.Close()
		object("<< /Type /Page /Parent 2 0 R /MediaBox [0 0 %.2f %.2f] /Resources << /Font << /F1 3 0 R >> >> /Contents %d 0 R >>",
			width*pointsPerMM, height*pointsPerMM, len(offsets)+2)
		object("<< /Length %d /Filter /FlateDecode >>\nstream\n%s\nendstream", packed.Len(), packed.String())
	}
	table := b.Len()
	fmt.Fprintf(&b, "xref\n0 %d\n0000000000 65535 f \n", len(offsets)+1)
	for _, at := range offsets {
		fmt.Fprintf(&b, "%010d 00000 n \n", at)
	}
	fmt.Fprintf(&b, "trailer\n<< /Size %d /Root 1 0 R >>\nstartxref\n%d\n%%%%EOF\n", len(offsets)+1, table)
	return b.Bytes()
}
