package controlplane

import (
	"encoding/base64"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"
)

// A cursor that is taken is one that we would give, so that nothing comes out of it that
// a list could not have meant.
func FuzzACursorThatIsTakenIsOneOfOurs(f *testing.F) {
	r := ListRequest{Order: MostClicked}
	f.Add(r.cursor(ListPlace{Stage: StageClicked, Created: time.Unix(1, 0), Clicks: 7, ID: 9}))
	f.Add(r.cursor(ListPlace{Stage: StageNever}))
	f.Add("x")
	f.Add(strings.Repeat("\n", base64.RawURLEncoding.EncodedLen(cursorSize)-10) + "AQAAAAAAAA")
	f.Fuzz(func(t *testing.T, cursor string) {
		r := r
		r.Cursor = cursor
		place, err := r.readCursor()
		if err != nil {
			return
		}
		if place.ID == 0 { // the beginning of a stage, whatever else it says
			return
		}
		require.Equal(t, cursor, r.cursor(place))
	})
}
