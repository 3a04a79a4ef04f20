package redirectfile

import (
	"encoding/csv"
	"errors"
	"fmt"
	"io"
	"strconv"
	"strings"
)

// readBulk reads the CSV of Cloudflare's bulk redirects: source, target, status,
// preserve_query_string, include_subdomains, subpath_matching, preserve_path_suffix.
func (b *builder) readBulk(text string) error {
	records := csv.NewReader(strings.NewReader(text))
	records.FieldsPerRecord, records.Comment = -1, '#'
	records.TrimLeadingSpace = true
	for {
		cells, err := records.Read()
		switch {
		case errors.Is(err, io.EOF):
			return nil
		case err != nil:
			return fmt.Errorf("the CSV cannot be read: %w", err)
		}
		line, _ := records.FieldPos(0)
		if line == 1 && strings.EqualFold(cells[0], "source_url") {
			continue
		}
		b.add(b.bulkRule(line, cells))
	}
}

func (b *builder) bulkRule(line int, cells []string) rule {
	r := rule{line: line, status: 301}
	if len(cells) < 2 || len(cells) > 7 {
		return r.refuse("it has %d cells: a source, a target, and up to five options are expected", len(cells))
	}
	r.to = cells[1]
	options := [4]bool{false, false, false, true} // query, subdomains, subpaths, suffix
	for i, cell := range cells[2:] {
		var err error
		switch {
		case cell == "":
		case i == 0:
			r.status, err = strconv.Atoi(cell)
		default:
			options[i-1], err = strconv.ParseBool(strings.ToLower(cell))
		}
		if err != nil {
			return r.refuse("the cell %d, %.40q, is neither a status nor true or false", i+3, cell)
		}
	}
	var path string
	r.host, path = hostAndPath(cells[0])
	if strings.ContainsAny(path, "?#") {
		return r.refuse("the source has a query or a fragment: give the link a rule with a condition on its query")
	}
	var err error
	if r.from, err = splitPath(path); err != nil {
		return r.refuse("%v", err)
	}
	r.forwardQuery = options[0]
	if options[1] {
		b.note("include_subdomains: the links are made for the hosts that the file names, and for no subdomain of theirs")
	}
	switch {
	case options[2] && options[3]:
		r.prefix = true
	case options[2]:
		r.from = append(r.from, segment{star: true})
		r.to = literally.Replace(r.to)
	}
	return r
}
