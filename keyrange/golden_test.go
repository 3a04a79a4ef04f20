package keyrange_test

import (
	"crypto/sha256"
	"encoding/hex"
	"io"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
)

// If one of these tests fails, do not change the test: the change that broke it
// would issue codes in circulation a second time, and decode them to other counters.
// The vectors were computed by a program in another language from the description
// in DESIGN.md.
func TestCoder_MappingIsWhatItHasAlwaysBeen(t *testing.T) {
	for _, golden := range []struct {
		codeLength, prefixLength, prefix int
		counter                          int64
		code                             waypost.Code
	}{
		{5, 1, 0, 0, "0a46j"},
		{5, 1, 61, 14776335, "zCdtT"},
		{5, 1, 7, 4925445, "7sb8n"},
		{5, 2, 0, 0, "00Hkl"},
		{5, 2, 3843, 238327, "zz44m"},
		{5, 2, 7, 79442, "074yD"},
		{6, 1, 0, 0, "01t9Tp"},
		{6, 1, 61, 916132831, "zhOMxH"},
		{6, 1, 7, 305377610, "7tBf5o"},
		{6, 2, 0, 0, "00un9V"},
		{6, 2, 3843, 14776335, "zzijtc"},
		{6, 2, 7, 4925445, "07IKuf"},
		{6, 3, 0, 0, "000JpY"},
		{6, 3, 238327, 238327, "zzz9vL"},
		{6, 3, 7, 79442, "007lvA"},
		{7, 1, 0, 0, "0ghDJQZ"},
		{7, 1, 61, 56800235583, "zyrJqRo"},
		{7, 1, 7, 18933411861, "7AXdT1Z"},
		{7, 2, 0, 0, "00WGua5"},
		{7, 2, 3843, 916132831, "zz1KIpP"},
		{7, 2, 7, 305377610, "07rlSI1"},
		{7, 3, 0, 0, "000LGuU"},
		{7, 3, 238327, 14776335, "zzzQfHN"},
		{7, 3, 7, 4925445, "007QBU7"},
		{8, 1, 0, 0, "0niGjZox"},
		{8, 1, 61, 3521614606207, "zpff5oIt"},
		{8, 1, 7, 1173871535402, "7lRRhFIa"},
		{8, 2, 0, 0, "00go5cWb"},
		{8, 2, 3843, 56800235583, "zzNnfWSA"},
		{8, 2, 7, 18933411861, "075gXRQo"},
		{8, 3, 0, 0, "000bbRr2"},
		{8, 3, 238327, 916132831, "zzzO9oyI"},
		{8, 3, 7, 305377610, "007aeqi6"},
		{9, 1, 0, 0, "0GnuFZm1s"},
		{9, 1, 61, 218340105584895, "zc4MbzEob"},
		{9, 1, 7, 72780035194965, "7S2luaQCk"},
		{9, 2, 0, 0, "006dtZVT9"},
		{9, 2, 3843, 3521614606207, "zzEHlLuiZ"},
		{9, 2, 7, 1173871535402, "07CmWjuiN"},
		{9, 3, 0, 0, "000JTuj2u"},
		{9, 3, 238327, 56800235583, "zzz2UeMBL"},
		{9, 3, 7, 18933411861, "007UCif06"},
		{10, 1, 0, 0, "0YYSKlOMCh"},
		{10, 1, 61, 13537086546263551, "zVNY8R9KpY"},
		{10, 1, 7, 4512362182087850, "7IrXACNXHS"},
		{10, 2, 0, 0, "0004aGyOjm"},
		{10, 2, 3843, 218340105584895, "zz1Kzg4M1N"},
		{10, 2, 7, 72780035194965, "07ub4OUMZm"},
		{10, 3, 0, 0, "000kfvS6Bq"},
		{10, 3, 238327, 3521614606207, "zzznLvAcGp"},
		{10, 3, 7, 1173871535402, "007fQhcOpJ"},
		{7, 2, 1234, 0, "JuwgTOX"},
		{7, 2, 1234, 1, "Ju1TE0T"},
		{7, 2, 1234, 2, "JuA2wi1"},
		{7, 2, 1234, 3, "JuL7MpJ"},
		{7, 2, 1234, 4, "JurDCIw"},
	} {
		coder := newCoder(t, golden.codeLength, golden.prefixLength)
		require.Equal(t, golden.code, coder.Encode(golden.prefix, golden.counter), "%+v", golden)
		prefix, counter, ok := coder.Decode(golden.code)
		require.True(t, ok)
		require.Equal(t, golden.prefix, prefix)
		require.Equal(t, golden.counter, counter)
	}
}

func TestCoder_LongRunOfCodesIsWhatItHasAlwaysBeen(t *testing.T) {
	coder := newCoder(t, 5, 2)
	sum := sha256.New()
	for counter := range int64(20_000) {
		_, err := io.WriteString(sum, string(coder.Encode(77, counter)))
		require.NoError(t, err)
	}
	require.Equal(t, "7e7e927f69188647df214004a7e9b19d1ae1fd2689ec48e5d8b7de0cf44703fe", hex.EncodeToString(sum.Sum(nil)))
}
