package linkfile_test

import (
	"bytes"
	"encoding/json"
	"flag"
	"fmt"
	"os"
	"path/filepath"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost/internal/linkfile"
)

var update = flag.Bool("update", false, "write the expected links of testdata/sources")

// The files have the shape of each service's, and everything in them is made up.
func TestSources_BecomeLinks(t *testing.T) {
	files, err := filepath.Glob("testdata/sources/*")
	require.NoError(t, err)
	berlin, err := time.LoadLocation("Europe/Berlin")
	require.NoError(t, err)
	for _, path := range files {
		if strings.HasSuffix(path, ".want") {
			continue
		}
		t.Run(filepath.Base(path), func(t *testing.T) {
			text, err := os.ReadFile(path)
			require.NoError(t, err)
			var o linkfile.Options
			if strings.HasSuffix(path, ".redirects") {
				o.Format = linkfile.Format(strings.TrimSuffix(filepath.Base(path), ".redirects"))
				o.Site = "https://www.example.com"
			}
			shape, mapping, rows := readAll(t, string(text), o)
			var got bytes.Buffer
			_, _ = fmt.Fprintf(&got, "%s, dates %s, tags %s, left out: %q\n", shape.Format, mapping.Dates, mapping.Tags, mapping.LeftOut(&shape))
			m, err := linkfile.NewMapper(&shape, mapping, linkfile.MapOptions{Zone: berlin, KeepCodes: true})
			require.NoError(t, err)
			for _, row := range rows {
				_, _ = fmt.Fprintf(&got, "%d: ", row.Line)
				link, err := m.Link(row)
				if err != nil {
					_, _ = fmt.Fprintf(&got, "refused: %v\n", err)
					continue
				}
				encoder := json.NewEncoder(&got)
				encoder.SetEscapeHTML(false)
				require.NoError(t, encoder.Encode(link))
			}
			if *update {
				require.NoError(t, os.WriteFile(path+".want", got.Bytes(), 0o600))
			}
			want, err := os.ReadFile(path + ".want")
			require.NoError(t, err)
			require.Equal(t, string(want), got.String())
			require.NotContains(t, got.String(), "192.0.2.")
		})
	}
}
