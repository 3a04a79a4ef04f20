package waypost_test

import (
	"encoding/json"
	"strconv"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
)

func TestErrorBodyOfEveryStatusIsASmallPageAndAProblemDocument(t *testing.T) {
	for _, status := range []int{400, 404, 405, 408, 410, 413, 414, 431, 500, 503} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			contentType, page := waypost.ErrorBody(status, true)
			require.Equal(t, "text/html; charset=utf-8", contentType)
			require.Less(t, len(page), 2048)
			require.Contains(t, string(page), "<small>"+strconv.Itoa(status)+"</small>")
			require.NotContains(t, string(page), "{title}")
			require.NotContains(t, string(page), "http", "the page loads nothing")

			contentType, body := waypost.ErrorBody(status, false)
			require.Equal(t, "application/problem+json", contentType)
			var problem struct {
				Type, Title, Detail string
				Status              int
			}
			require.NoError(t, json.Unmarshal(body, &problem))
			require.Equal(t, status, problem.Status)
			require.NotEmpty(t, problem.Type)
			require.Contains(t, string(page), "<h1>"+problem.Title+"</h1>")
			require.Contains(t, string(page), problem.Detail)
		})
	}
}

func TestErrorBodyOfAnUnknownStatusIsThatOfAnInternalError(t *testing.T) {
	_, unknown := waypost.ErrorBody(799, false)
	_, internal := waypost.ErrorBody(500, false)
	require.Equal(t, internal, unknown)
}

func TestErrorBodyNamesTheProblemByItsErrorCode(t *testing.T) {
	_, body := waypost.ErrorBody(410, false)
	require.Contains(t, string(body), `"type":"`+waypost.ProblemType(waypost.EGone)+`"`)
}

func TestAcceptsHTML(t *testing.T) {
	for name, c := range map[string]struct {
		accept string
		want   bool
	}{
		"a browser does":            {"text/html,application/xhtml+xml,application/xml;q=0.9,*/*;q=0.8", true},
		"the name alone does":       {"text/html", true},
		"the name at the end does":  {"application/json, text/html", true},
		"upper case does":           {"TEXT/HTML", true},
		"nothing does not":          {"", false},
		"anything does not":         {"*/*", false},
		"JSON does not":             {"application/json", false},
		"a name cut short does not": {"text/htm", false},
	} {
		t.Run(name, func(t *testing.T) {
			require.Equal(t, c.want, waypost.AcceptsHTML(c.accept))
			require.Equal(t, c.want, waypost.AcceptsHTML([]byte(c.accept)))
			require.Zero(t, testing.AllocsPerRun(10, func() { waypost.AcceptsHTML(c.accept) }))
		})
	}
	require.True(t, waypost.AcceptsHTML(strings.Repeat("x", 4096)+"text/html"))
}
