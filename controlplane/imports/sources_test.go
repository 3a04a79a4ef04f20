package imports_test

import (
	"os"
	"path/filepath"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/api"
	"waypost/controlplane/imports"
)

// The files have the shape of each service's.
func TestImports_OfEachSourceMakeTheSameLinksWhenKilledOrMendedAndNoneAgain(t *testing.T) {
	s := start(t)
	for _, host := range []string{"own.example", "link.example.com", "s.example.com"} {
		s.exec(t, `INSERT INTO domain (host, workspace_id) VALUES ($1, 1)`, host)
	}
	fault := strings.NewReplacer("//www.example.com/", "//www.example.com/faulty/", "%2F%2Fwww.example.com%2F", "%2F%2Fwww.example.com%2Ffaulty",
		"//docs.example.com/", "//docs.example.com/faulty/")
	for _, name := range []string{
		"bitly.csv", "bitly.json", "chhoto.json", "dub.json", "firebase.csv", "golink.jsonl", "kutt.csv", "list.txt", "netlify.redirects",
		"rebrandly.csv", "shlink.csv", "shlink.json", "shortio.json", "sink.json", "waypost.jsonl", "yourls.csv", "yourls-mysqldump.sql",
	} {
		t.Run(name, func(t *testing.T) {
			file, err := os.ReadFile(filepath.Join("../../internal/linkfile/testdata/sources", name))
			require.NoError(t, err)
			text := strings.ReplaceAll(string(file), "go.example.com", "own.example") // the shared host takes fewer codes
			set := imports.Settings{KeepCodes: true, Dedupe: true, Domain: "own.example"}
			if name == "netlify.redirects" {
				set.Format, set.Site = "netlify", "https://www.example.com"
			}
			whole := s.run(t, text, set)
			want := s.links(t)
			require.NotZero(t, whole.Counts.Created, whole.Counts)
			undo := func(id string) {
				_, err := s.Undo(t.Context(), owner, id)
				require.NoError(t, err)
				s.work(t, id, api.ImportUndone)
				require.Empty(t, s.links(t))
			}
			undo(whole.ID)
			faulty := s.run(t, fault.Replace(text), set)
			require.NotEqual(t, want, s.links(t))
			require.Equal(t, whole.Counts.Created, faulty.Counts.Created)
			undo(faulty.ID)

			i := s.send(t, text, len(text)/3+1, set)
			for nth := 1; s.workKilled(t, i.ID, api.ImportReady, "after part", nth); nth += 2 {
			}
			s.exec(t, `UPDATE import SET document = document || '{"most": 1}' WHERE id = $1`, i.ID) // steps of one row, at first
			_, err = s.Start(t.Context(), owner, i.ID, false)
			require.NoError(t, err)
			for _, point := range []string{"after links", "before links"} {
				s.workKilled(t, i.ID, api.ImportDone, point, 1)
			}
			killed := s.work(t, i.ID, api.ImportDone)
			require.Equal(t, whole.Counts, killed.Counts)
			require.Equal(t, want, s.links(t))

			again := s.run(t, text, set)
			require.Zero(t, again.Counts.Created)
			require.Equal(t, want, s.links(t))
			undo(i.ID)
		})
	}
}
