package httpapi

import (
	"encoding/binary"
	"encoding/hex"
	"net/http"
	"strconv"
	"strings"

	"waypost"
	"waypost/controlplane"
)

// A link's entity tag is "EPOCH-SEQUENCE-STAMP.CLICKS": its version, on which a change
// must be based, and its clicks, which are part of the answer. If-Match compares
// versions only, because otherwise every click would make a change stale.

func etag(l *waypost.Link) string {
	b := append(make([]byte, 0, 64), '"')
	b = append(strconv.AppendUint(b, uint64(l.Revision.Epoch), 10), '-')
	b = append(strconv.AppendUint(b, l.Revision.Seq, 10), '-')
	b = hex.AppendEncode(b, binary.BigEndian.AppendUint64(nil, l.Stamp))
	b = strconv.AppendInt(append(b, '.'), l.Clicks, 10)
	return string(append(b, '"'))
}

// maxTags bounds the entity tags of one header.
const maxTags = 32

// versionsOf reads the versions in If-Match, nil for any. A foreign tag, or a weak one,
// is not a version.
func versionsOf(header string) ([]controlplane.Version, error) {
	tags, anyTag, err := readTags(header)
	if err != nil || anyTag || tags == nil {
		return nil, err
	}
	versions := []controlplane.Version{}
	for _, tag := range tags {
		if v, ok := versionOf(tag); ok {
			versions = append(versions, v)
		}
	}
	return versions, nil
}

func versionOf(tag string) (v controlplane.Version, ok bool) {
	text, strong := strings.CutPrefix(tag, `"`)
	version, _, dotted := strings.Cut(text, ".")
	parts := strings.Split(version, "-")
	if !strong || !dotted || len(parts) != 3 {
		return v, false
	}
	epoch, err1 := strconv.ParseUint(parts[0], 10, 32)
	seq, err2 := strconv.ParseUint(parts[1], 10, 63)
	stamp, err3 := strconv.ParseUint(parts[2], 16, 64)
	v = controlplane.Version{Revision: waypost.Revision{Epoch: uint32(epoch), Seq: seq}, Stamp: stamp}
	return v, err1 == nil && err2 == nil && err3 == nil
}

// noneMatch reports whether If-None-Match names a tag, by the weak comparison.
func noneMatch(header, tag string) (bool, error) {
	tags, anyTag, err := readTags(header)
	for _, t := range tags {
		anyTag = anyTag || strings.TrimPrefix(t, "W/") == tag
	}
	return anyTag, err
}

// readTags reads a list of entity tags, with their quotes; no list for an empty header.
func readTags(header string) (tags []string, anyTag bool, err error) {
	bad := waypost.Errorf(waypost.EMalformed, "If-Match and If-None-Match hold entity tags in double quotes, with commas between, or one asterisk")
	rest := strings.Trim(header, " \t")
	if rest == "" || rest == "*" {
		return nil, rest == "*", nil
	}
	for rest != "" {
		weak := strings.HasPrefix(rest, "W/")
		rest = strings.TrimPrefix(rest, "W/")
		end := -1
		if strings.HasPrefix(rest, `"`) {
			end = strings.IndexByte(rest[1:], '"')
		}
		if end < 0 || len(tags) == maxTags {
			return nil, false, bad
		}
		tag := rest[:end+2]
		if weak {
			tag = "W/" + tag
		}
		tags = append(tags, tag)
		rest = strings.TrimLeft(rest[end+2:], " \t")
		if rest == "" {
			break
		}
		if rest[0] != ',' {
			return nil, false, bad
		}
		rest = strings.TrimLeft(rest, ", \t")
	}
	return tags, false, nil
}

// notModified is the answer to a client that has the present state, with the given tag.
type notModified string

func (tag notModified) respond(w http.ResponseWriter, _ *http.Request) {
	w.Header().Set("ETag", string(tag))
	w.WriteHeader(http.StatusNotModified)
}
