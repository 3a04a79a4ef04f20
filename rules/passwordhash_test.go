package rules_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/rules"
)

const (
	bcryptHash = "$2y$12$N9qo8uLOickgx2ZMRZoMyef5xcSVz6tDlwsebqZ59QrUm.lPYTRCO"
	argonHash  = "$argon2id$v=19$m=65536,t=3,p=4$c29tZXNhbHRzb21lc2FsdA$RdescudvJCsgt3ub+b27dWRJJTmaapiSYWvCxBpYtqY"
)

func TestParsePasswordHash_TakesWhatEdgesCanCompute(t *testing.T) {
	v, err := rules.ParsePasswordHash(bcryptHash)
	require.NoError(t, err)
	require.Equal(t, strings.Replace(bcryptHash, "2y", "2b", 1), string(v.Bcrypt()))
	got, ok := rules.PasswordOf(protected(t, rules.Source{}, &v).Programme)
	require.True(t, ok)
	require.Equal(t, v, got)

	v, err = rules.ParsePasswordHash(argonHash)
	require.NoError(t, err)
	require.Equal(t, []any{uint32(64 << 10), uint8(3), uint8(4), "somesaltsomesalt"}, []any{v.Memory, v.Passes, v.Lanes, string(v.Salt[:])})
	require.Equal(t, []byte{0x45, 0xd7, 0xac}, v.Hash[:3])
	require.Nil(t, v.Bcrypt())
	got, ok = rules.PasswordOf(protected(t, rules.Source{}, &v).Programme)
	require.True(t, ok)
	require.Equal(t, v, got)

	long := strings.Repeat("A", 1<<20)
	for hash, why := range map[string]string{
		"": "cannot come along", "5f4dcc3b5aa765d61d8327deb882cf99": "cannot come along", "$6$rounds=5000$salt$hash": "cannot come along",
		"$2x" + bcryptHash[3:]: "cannot come along",
		bcryptHash[:59]:        "cannot come along",
		bcryptHash + "A":       "cannot come along",
		bcryptHash + "\n":      "cannot come along",
		"$2b$12$" + long:       "cannot come along",
		strings.Replace(bcryptHash, "$12$", "$13$", 1): "cost 13",
		strings.Replace(bcryptHash, "$12$", "$99$", 1): "cost 99",
		strings.Replace(bcryptHash, "$12$", "$03$", 1): "cost 3",
		strings.Replace(argonHash, "2id", "2i", 1):     "cannot come along",
		strings.Replace(argonHash, "v=19", "v=16", 1):  "cannot come along",
		strings.Replace(argonHash, "$c29t", "$", 1):    "cannot come along",
		argonHash + long: "cannot come along",
		strings.Replace(argonHash, "65536", "65537", 1): "m=65537,t=3,p=4",
		strings.Replace(argonHash, "65536", "31", 1):    "at least 8 KiB a lane",
		strings.Replace(argonHash, "65536", "0", 1):     "at least 8 KiB a lane",
		strings.Replace(argonHash, "t=3", "t=5", 1):     "at most 65536 KiB, 4 passes and 4 lanes",
		strings.Replace(argonHash, "t=3", "t=256", 1):   "t=256",
		strings.Replace(argonHash, "t=3", "t=0", 1):     "t=0",
		strings.Replace(argonHash, "p=4", "p=5", 1):     "p=5",
		strings.Replace(argonHash, "p=4", "p=0", 1):     "p=0",
	} {
		_, err := rules.ParsePasswordHash(hash)
		require.ErrorContains(t, err, why, "%.80s", hash)
		require.Less(t, len(err.Error()), 300)
	}
}

// FuzzParsePasswordHash demands that a hash that is taken is a verifier which programmes
// can have, and that its text comes back.
func FuzzParsePasswordHash(f *testing.F) {
	f.Add(bcryptHash)
	f.Add(argonHash)
	f.Fuzz(func(t *testing.T, text string) {
		v, err := rules.ParsePasswordHash(text)
		if err != nil {
			return
		}
		got, ok := rules.PasswordOf(protected(t, rules.Source{}, &v).Programme)
		require.True(t, ok)
		require.Equal(t, v, got)
		if hash := v.Bcrypt(); hash != nil {
			again, err := rules.ParsePasswordHash(string(hash))
			require.NoError(t, err)
			require.Equal(t, v, again)
		}
	})
}
