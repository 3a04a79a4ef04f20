package replication_test

import (
	"context"
	"errors"
	"log/slog"
	"net/http"
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/keyrange"
	"waypost/replication"
)

func TestWhoHasTheKeysOfPrefixesTellsTheCountersOfTheirCodes(t *testing.T) {
	space, err := keyrange.NewSpace(7, 2)
	require.NoError(t, err)
	coder := keyrange.NewCoder(space, [32]byte{7})
	prefixes, broken := []int{0, 17, 3843}, error(nil)
	a := asker(t, replication.PrefixKeysHandler(coder, func(context.Context) ([]int, error) { return prefixes, broken }, slog.New(slog.DiscardHandler)))
	d, err := a.PrefixKeys(t.Context())
	require.NoError(t, err)
	require.Equal(t, space, d.Space())
	for _, prefix := range prefixes {
		_, suffix, ok := space.Split(coder.Encode(prefix, 123_456))
		require.True(t, ok)
		counter, known := d.Counter(prefix, suffix)
		require.True(t, known)
		require.EqualValues(t, 123_456, counter)
	}
	_, known := d.Counter(16, 0)
	require.False(t, known)

	broken = errors.New("away")
	_, err = a.PrefixKeys(t.Context())
	require.ErrorContains(t, err, "answered 503")
	prefixes, broken = make([]int, 62*62+1), nil
	_, err = a.PrefixKeys(t.Context())
	require.ErrorContains(t, err, "answered 503")
}

// hexKey is a key as it is sent.
const hexKey = "000102030405060708090a0b0c0d0e0f"

func TestKeysOfPrefixesThatCannotBeAreNotTaken(t *testing.T) {
	for name, body := range map[string]string{
		"a page": "<h1>welcome</h1>", "nothing": "", "another shape": `[]`, "no space": `{"keys": {"0": "` + hexKey + `"}}`,
		"an impossible space": `{"key_space": "7/6", "keys": {}}`, "a short key": `{"key_space": "7/2", "keys": {"0": "00"}}`,
		"no hex": `{"key_space": "7/2", "keys": {"0": "` + strings.Repeat("x", 32) + `"}}`, "a prefix beyond": `{"key_space": "7/2", "keys": {"3844": "` + hexKey + `"}}`,
		"a prefix below": `{"key_space": "7/2", "keys": {"-1": "` + hexKey + `"}}`, "no number": `{"key_space": "7/2", "keys": {"0A": "` + hexKey + `"}}`,
		"too much": `{"key_space": "7/2", "keys": {}` + strings.Repeat(" ", 1<<20) + `}`,
	} {
		t.Run(name, func(t *testing.T) {
			a := asker(t, http.HandlerFunc(func(w http.ResponseWriter, _ *http.Request) { _, _ = w.Write([]byte(body)) }))
			_, err := a.PrefixKeys(t.Context())
			require.ErrorContains(t, err, "ask for the keys of prefixes")
		})
	}
}

func FuzzKeysOfPrefixesAreReadOrRefused(f *testing.F) {
	f.Add([]byte(`{"key_space": "7/2", "keys": {"17": "` + hexKey + `"}}`))
	f.Add([]byte(`{"key_space": "10/3", "keys": {"238327": "` + hexKey + `"}}`))
	f.Add([]byte(`{"key_space": "7/2", "keys": {"-1": ""}}`))
	f.Fuzz(func(t *testing.T, body []byte) {
		d, err := replication.DecodePrefixKeys(body)
		if err != nil {
			return
		}
		space := d.Space()
		prefix, suffix, ok := space.Split(waypost.Code(strings.Repeat("0", space.CodeLength())))
		require.True(t, ok)
		if counter, known := d.Counter(prefix, suffix); known {
			require.True(t, space.Holds(keyrange.Block{Prefix: prefix, Lo: counter, Hi: counter + 1}))
		}
	})
}
