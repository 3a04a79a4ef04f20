package httpapi_test

import (
	"context"
	"net/http"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/api"
	"waypost/controlplane"
	"waypost/controlplane/httpapi"
	"waypost/controlplane/imports"
)

// changedImports keeps the change of an import.
type changedImports struct {
	noImports
	change *api.ImportChange
}

func (c *changedImports) Change(_ context.Context, _ controlplane.Actor, _ string, change *api.ImportChange) (imports.Import, error) {
	c.change = change
	return imports.Import{}, nil
}

func (c *changedImports) Find(context.Context, controlplane.Actor, string) (imports.Import, []imports.Sample, error) {
	return imports.Import{}, nil, nil
}

func TestChangeImport_TakesAnyNamesOfColumns(t *testing.T) {
	var got changedImports
	a := start(t, func(_ *links, cfg *httpapi.Config) { cfg.Imports = &got })
	answer := a.do(call{
		method: http.MethodPatch, path: api.PathImports + "/i1",
		body: `{"mapping": {"columns": {"Long URL": "original_url", "Größe \"1\"": "", "": "title"}, "dates": "dmy"}}`,
	})
	require.Equal(t, http.StatusOK, answer.StatusCode, answer.text)
	require.Equal(t, &api.ImportMapping{
		Columns: map[string]string{"Long URL": "original_url", `Größe "1"`: "", "": "title"}, Dates: "dmy",
	}, got.change.Mapping)
	for body, says := range map[string]string{
		`{"mapping": {"columns": []}}`:          "body.mapping.columns: expected object",
		`{"mapping": {"columns": {"a": 1}}}`:    "body.mapping.columns.a: expected string",
		`{"mapping": {"columns": {"a": "b"`:     "not JSON",
		`{"mapping": {"columns": {"a":"","a"`:   "twice",
		`{"mapping": {"columns": {"a": null}}}`: "expected string",
	} {
		answer := a.do(call{method: http.MethodPatch, path: api.PathImports + "/i1", body: body})
		require.GreaterOrEqual(t, answer.StatusCode, 400, body)
		require.Contains(t, answer.text, says, body)
	}
}
