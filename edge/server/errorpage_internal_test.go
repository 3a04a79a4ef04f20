package server

import (
	"encoding/json"
	"strconv"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
)

func TestErrorBody_IsASmallPageOrAProblemDocument(t *testing.T) {
	for _, status := range []int{400, 404, 405, 408, 410, 413, 414, 431, 500, 503} {
		t.Run(strconv.Itoa(status), func(t *testing.T) {
			contentType, page := errorBody(status, true)
			require.Equal(t, "text/html; charset=utf-8", contentType)
			require.Less(t, len(page), 2048)
			require.Contains(t, string(page), "<small>"+strconv.Itoa(status)+"</small>")
			require.NotContains(t, string(page), "{title}")
			require.NotContains(t, string(page), "http:", "the page loads nothing")

			contentType, body := errorBody(status, false)
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

func TestErrorBody_UnknownStatusIsAnInternalError(t *testing.T) {
	_, unknown := errorBody(799, false)
	_, internal := errorBody(500, false)
	require.Equal(t, internal, unknown)
}

func TestErrorBody_NamesTheProblem(t *testing.T) {
	_, body := errorBody(410, false)
	require.Contains(t, string(body), `"type":"`+waypost.ProblemType(waypost.EGone)+`"`)
}
