package linkfile

import (
	"bufio"
	"bytes"
	"errors"
	"fmt"
	"io"
	"unicode/utf8"

	"golang.org/x/text/encoding"
	"golang.org/x/text/encoding/charmap"
	"golang.org/x/text/encoding/unicode"
)

// Encoding names the encoding of a text.
type Encoding string

// The encodings.
const (
	UTF8        Encoding = "utf-8"
	UTF16LE     Encoding = "utf-16le"
	UTF16BE     Encoding = "utf-16be"
	Windows1252 Encoding = "windows-1252"
)

// Encodings lists the encodings that can be read.
func Encodings() []Encoding { return []Encoding{UTF8, UTF16LE, UTF16BE, Windows1252} }

var decoders = map[Encoding]encoding.Encoding{
	UTF16LE:     unicode.UTF16(unicode.LittleEndian, unicode.IgnoreBOM),
	UTF16BE:     unicode.UTF16(unicode.BigEndian, unicode.IgnoreBOM),
	Windows1252: charmap.Windows1252,
}

// packed says by the first bytes of a file how it is packed.
var packed = map[string]string{
	"PK\x03\x04": "a spreadsheet or another zip archive: save it as CSV in UTF-8", "\x1f\x8b": "packed with gzip: unpack it first",
	"\x28\xb5\x2f\xfd": "packed with zstd: unpack it first", "\xfd7zXZ\x00": "packed with xz: unpack it first",
}

const notUTF8 = "the text is not in UTF-8: say its encoding, such as windows-1252 for files of older spreadsheets"

// decodeText returns the text of a file in UTF-8 without a byte order mark, and the
// encoding that the file has.
func decodeText(file io.Reader, told Encoding) (*bufio.Reader, Encoding, error) {
	raw := bufio.NewReaderSize(file, beginning)
	begin, err := raw.Peek(6)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, "", fmt.Errorf("read the file: %w", err)
	}
	for mark, is := range packed {
		if bytes.HasPrefix(begin, []byte(mark)) {
			return nil, "", fmt.Errorf("the file is %s", is)
		}
	}
	mark, marked := "", told
	for m, of := range map[string]Encoding{"\uFEFF": UTF8, "\xFF\xFE": UTF16LE, "\xFE\xFF": UTF16BE} {
		if bytes.HasPrefix(begin, []byte(m)) {
			mark, marked = m, of
		}
	}
	switch {
	case told == "":
		told = marked
	case told != marked:
		return nil, "", fmt.Errorf("the file begins with the byte order mark of %s, and not as %s: leave the encoding out", marked, told)
	}
	if told == "" {
		told = UTF8
	}
	if _, err := raw.Discard(len(mark)); err != nil {
		return nil, "", fmt.Errorf("read the file: %w", err)
	}
	if told == UTF8 {
		return raw, told, nil
	}
	decoder, ok := decoders[told]
	if !ok {
		return nil, "", fmt.Errorf("the encoding %q is unknown: expected one of %v", told, Encodings())
	}
	return bufio.NewReaderSize(decoder.NewDecoder().Reader(raw), beginning), told, nil
}

// peekBeginning returns the beginning of a text, which is not consumed.
func peekBeginning(text *bufio.Reader) ([]byte, error) {
	begin, err := text.Peek(beginning)
	if err != nil && !errors.Is(err, io.EOF) {
		return nil, fmt.Errorf("read the file: %w", err)
	}
	return begin, nil
}

// checkBeginning refuses a file that is no text, and a text that is not in UTF-8 unless
// its encoding was told. With UTF-8 told, single rows are refused.
func checkBeginning(begin []byte, told Encoding) error {
	if i := bytes.IndexByte(begin, 0); i >= 0 && told == "" && i < 4 {
		return errors.New("the file is no text in UTF-8: if it is in UTF-16, say utf-16le or utf-16be")
	}
	if told != "" {
		return nil
	}
	for at := 0; at < len(begin); {
		c, n := utf8.DecodeRune(begin[at:])
		if c == utf8.RuneError && n <= 1 && (utf8.FullRune(begin[at:]) || len(begin) < beginning) {
			return fmt.Errorf("line %d: %s (utf-8 refuses the rows alone that are not)", lineAt(begin, at), notUTF8)
		}
		at += n
	}
	return nil
}

// lineAt returns the number of the line of a place in a text.
func lineAt(text []byte, at int) int {
	end := "\n"
	if !bytes.Contains(text, []byte(end)) {
		end = "\r"
	}
	return bytes.Count(text[:at], []byte(end)) + 1
}
