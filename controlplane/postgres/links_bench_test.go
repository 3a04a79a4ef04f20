package postgres_test

import (
	"fmt"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/controlplane"
	"waypost/controlplane/postgres"
)

// BenchmarkLinks measures a transaction with new links, a change of a link and a page of
// a list, with all that they allocate.
func BenchmarkLinks(b *testing.B) {
	db, err := postgres.Open(b.Context(), postgres.Config{URL: cluster.Database(b), HearTimeout: waitLimit})
	require.NoError(b, err)
	b.Cleanup(db.Close)
	_, err = db.EnsureCluster(b.Context(), postgres.ClusterConfig{CodeLength: 7, PrefixLength: 2, DefaultHost: "go.example.com"})
	require.NoError(b, err)
	next := 0
	made := func(n int) []*waypost.Link {
		ls := make([]*waypost.Link, n)
		for i := range ls {
			next++
			ls[i] = link(fmt.Sprintf("link-%d", next))
			ls[i].Title, ls[i].Description = "A title", "Some words about the link"
			ls[i].Tags = []string{"one", "two"}
			ls[i].Custom = false
		}
		return ls
	}
	for _, n := range []int{1, 100, 1000} {
		b.Run(fmt.Sprintf("insert/%d", n), func(b *testing.B) {
			b.ReportAllocs()
			for b.Loop() {
				placed, _, err := db.InsertLinks(b.Context(), 0, insertions(made(n)...))
				if err != nil || placed[n-1] != controlplane.Placed {
					b.Fatal(err, placed)
				}
			}
		})
	}
	b.Run("update", func(b *testing.B) {
		b.ReportAllocs()
		l, err := db.Link(b.Context(), waypost.DefaultWorkspace, waypost.DefaultDomain, "link-1")
		require.NoError(b, err)
		for b.Loop() {
			l.RedirectStatus = 603 - l.RedirectStatus // 301 and 302
			_, changed, err := db.UpdateLink(b.Context(), controlplane.Actor{Workspace: l.Workspace}, controlplane.VersionOf(&l), &l, nil)
			if err != nil || !changed {
				b.Fatal(err)
			}
		}
	})
	b.Run("list/1000", func(b *testing.B) {
		b.ReportAllocs()
		for b.Loop() {
			page, err := db.ListLinks(b.Context(), waypost.DefaultWorkspace, controlplane.LinkFilter{}, time.Now(), controlplane.NewestFirst,
				controlplane.ListPlace{}, 1000)
			if err != nil || len(page.Links) == 0 {
				b.Fatal(err)
			}
		}
	})
}
