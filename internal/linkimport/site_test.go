package linkimport_test

import (
	"io"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/client"
	"waypost/internal/linkimport"
)

func TestImport_TakesTheRedirectsOfASite(t *testing.T) {
	const file = "/docs/*  https://docs.example/:splat 302\n" +
		"/shop     /store\n" +
		"/app/*    /index.html 200\n" +
		"https://b.example/x https://broken.example/\n"
	a := &api{}
	im := linkimport.Import{API: a, Wait: a.wait, Format: "netlify", Site: "https://www.example.com", Domain: "a.example"}
	report, err := im.Run(t.Context(), strings.NewReader(file))
	require.NoError(t, err)
	require.Equal(t, 4, report.Rows)
	require.Equal(t, 3, report.Created)
	require.Equal(t, []linkimport.Row{{
		Line: 3, Reason: "the status 200 answers with another page's content, and a link only redirects: /app/*    /index.html 200",
	}}, report.Refused)
	links := a.batches[0]
	for i := range links {
		links[i].CreatedBy = ""
	}
	require.Equal(t, []client.NewLink{
		{OriginalURL: "https://docs.example/{path}", CustomCode: "docs/*", Domain: "a.example", RedirectStatus: 302, ForwardQuery: true},
		{OriginalURL: "https://www.example.com/store", CustomCode: "shop", Domain: "a.example", RedirectStatus: 301, ForwardQuery: true},
		{OriginalURL: "https://broken.example/", CustomCode: "x", Domain: "b.example", RedirectStatus: 301, ForwardQuery: true},
	}, links)
	var mended strings.Builder
	refusals := linkimport.NewRefusals(io.NewSectionReader(strings.NewReader(file), 0, int64(len(file))), "netlify", &mended)
	require.NoError(t, refusals.Add(3, report.Refused[0].Reason))
	require.NoError(t, refusals.Flush())
	require.Equal(t, "# line 3: "+report.Refused[0].Reason[:len("the status 200 answers with another page's content, and a link only redirects")]+
		": /app/* /index.html 200\n/app/*    /index.html 200\n", mended.String())
	var notes []string
	im = linkimport.Import{API: &api{}, Wait: a.wait, Format: "cloudflare-bulk", Note: func(text string) { notes = append(notes, text) }}
	_, err = im.Run(t.Context(), strings.NewReader("a.example/x,https://b.example/,301,false,true\n"))
	require.NoError(t, err)
	require.Len(t, notes, 1)
	_, err = im.Run(t.Context(), strings.NewReader("a.example/x,\"https://b.example/\n"))
	require.ErrorContains(t, err, "the CSV cannot be read")
}
