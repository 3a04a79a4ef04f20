package rules_test

import (
	"crypto/hmac"
	"crypto/sha256"
	"encoding/binary"
	"encoding/hex"
	"fmt"
	"strings"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/rules"
)

// verifier returns a verifier whose parts are told apart by their bytes.
func verifier(key byte) *rules.Password {
	v := rules.Password{Memory: 19 << 10, Passes: 2, Lanes: 1}
	for i := range v.Hash {
		v.Hash[i], v.Key[i] = byte(i), key
	}
	v.Salt[0] = 9
	return &v
}

// protected compiles a source into the record of a link to home with a password.
func protected(t testing.TB, s rules.Source, v *rules.Password) *waypost.Record {
	t.Helper()
	with := compiling()
	with.Password = v
	b, err := rules.Compile(&s, with)
	require.NoError(t, err)
	r := record(t, rules.Source{})
	r.Programme = b
	return r
}

// pass returns the Cookie header of a visitor who passes until expires.
func pass(v *rules.Password, expires time.Time) string {
	return rules.PassCookie + "=" + string(v.AppendPass(nil, expires.Unix()))
}

func TestPassword_LetsVisitorsWithItsCookiePass(t *testing.T) {
	v, other := verifier(1), verifier(2)
	r := protected(t, rules.Source{}, v)
	good := pass(v, now.Add(time.Hour))
	for cookie, passes := range map[string]bool{
		"":             false,
		good:           true,
		"a=b; " + good: true,
		good + "; a=b": true,
		"waypost_pass=" + "1." + strings.Repeat("0", 64) + "; " + good: true,
		"waypost_pass":                               false,
		"waypost_pass=":                              false,
		"waypost_pass=.":                             false,
		good[:len(good)-1]:                           false,
		good + "0":                                   false,
		strings.Replace(good, "=", "=1", 1):          false,
		strings.Replace(good, "=", "=-", 1):          false,
		"X" + good:                                   false,
		pass(v, now):                                 false,
		pass(v, now.Add(time.Second)):                true,
		pass(other, now.Add(time.Hour)):              false,
		pass(v, time.Unix(999_999_999_999, 0)):       true,
		pass(v, time.Unix(1_000_000_000_000, 0)):     false,
		strings.Repeat("waypost_pass=0; ", 4) + good: false,
	} {
		res := rules.Resolve(r, visit{cookie: cookie}.facts(r))
		require.Equal(t, !passes, res.Password, cookie)
		require.Equal(t, passes, res.Link, cookie)
		require.True(t, res.Gated, cookie)
		if passes {
			require.Equal(t, home, string(res.Location))
		} else {
			require.Empty(t, res.Location)
			require.Equal(t, 200, res.Status)
		}
	}
}

func TestPassword_CookieIsAnHMACOfItsExpiry(t *testing.T) {
	v := verifier(7)
	mac := hmac.New(sha256.New, v.Key[:])
	mac.Write(binary.BigEndian.AppendUint64(nil, 1_800_000_000))
	require.Equal(t, "1800000000."+hex.EncodeToString(mac.Sum(nil)), string(v.AppendPass(nil, 1_800_000_000)))
}

func TestPassword_ComesAfterTheOtherGatesAndBeforeTheRules(t *testing.T) {
	v := verifier(1)
	r := protected(t, rules.Source{
		ValidFrom: now, ExpiredURL: "https://example.com/expired", MaxClicks: 1, ExhaustedURL: "https://example.com/exhausted",
		Rules: []rules.Rule{to("rule"), {Split: &rules.Split{Variants: []rules.Variant{{Weight: 1, To: home}, {Weight: 2, To: home}}}}},
	}, v)
	r.ExpiresAt = now.Add(time.Hour).UnixMilli()
	ask := func(at time.Time, gate, location string, change func(*waypost.Record, *rules.Facts)) waypost.Resolution {
		changed := *r
		f := visit{at: at}.facts(r)
		change(&changed, f)
		res, trace := rules.Explain(&changed, f)
		require.Equal(t, gate, trace.Gate)
		require.Equal(t, location, string(res.Location))
		return res
	}
	none := func(*waypost.Record, *rules.Facts) {}
	ask(now.Add(-time.Second), "valid_from", "", none)
	ask(now.Add(time.Hour), "expired", "https://example.com/expired", none)
	ask(now, "exhausted", "https://example.com/exhausted", func(r *waypost.Record, _ *rules.Facts) { r.Flags = waypost.Exhausted })
	ask(now, "state", "", func(r *waypost.Record, _ *rules.Facts) { r.State = waypost.Disabled })
	require.True(t, ask(now, "password", "", none).Password)
	res := ask(now, "", "https://example.com/rule", func(_ *waypost.Record, f *rules.Facts) { f.Passed = true })
	require.Equal(t, uint8(1), res.Rule)
	ask(now, "broken", "", func(r *waypost.Record, f *rules.Facts) {
		r.Programme = append([]byte{2}, r.Programme[1:]...) // of a later version
		f.Passed = true
	})
}

func TestPassword_IsKeptWithTheSplitKey(t *testing.T) {
	v := verifier(3)
	s := rules.Source{Rules: []rules.Rule{{Split: &rules.Split{Variants: []rules.Variant{{Weight: 1, To: home}, {Weight: 1, To: home}}}}}}
	b := protected(t, s, v).Programme
	require.NoError(t, rules.Check(b))
	require.True(t, rules.HasPassword(b))
	got, ok := rules.PasswordOf(b)
	require.True(t, ok)
	require.Equal(t, *v, got)
	key, ok := rules.SplitKey(b)
	require.True(t, ok)
	require.Equal(t, [16]byte{1, 2, 3}, key)
	_, ok = rules.PasswordOf(record(t, s).Programme)
	require.False(t, ok)
}

func TestCompile_RefusesAPasswordWithAPermanentRedirect(t *testing.T) {
	with := compiling()
	with.Status, with.Password = 308, verifier(1)
	_, err := rules.Compile(&rules.Source{}, with)
	require.Equal(t, waypost.EInvalid, waypost.CodeOf(err))
}

func TestCheck_RefusesAPasswordThatCostsTooMuch(t *testing.T) {
	for _, change := range []func(*rules.Password){
		func(v *rules.Password) { v.Memory = 1 << 20 },
		func(v *rules.Password) { v.Memory = 7 },
		func(v *rules.Password) { v.Passes = 0 },
		func(v *rules.Password) { v.Passes = 5 },
		func(v *rules.Password) { v.Lanes = 0 },
		func(v *rules.Password) { v.Lanes = 5 },
	} {
		v := verifier(1)
		change(v)
		with := compiling()
		with.Password = v
		_, err := rules.Compile(&rules.Source{}, with)
		require.ErrorIs(t, err, rules.ErrProgramme)
	}
}

func TestPassword_CheckOfACookieAllocatesNothing(t *testing.T) {
	v := verifier(1)
	r := protected(t, rules.Source{}, v)
	f := visit{cookie: "theme=dark; " + pass(v, now.Add(time.Hour))}.facts(r)
	wrong := visit{cookie: strings.Repeat(pass(verifier(2), now.Add(time.Hour))+"; ", 5)}.facts(r)
	require.Zero(t, testing.AllocsPerRun(1000, func() {
		if !rules.Resolve(r, f).Link || !rules.Resolve(r, wrong).Password {
			t.Fatal("wrong answer")
		}
	}))
}

// FuzzPassword_OnlyItsCookiePasses puts text into a Cookie header.
func FuzzPassword_OnlyItsCookiePasses(f *testing.F) {
	v := verifier(1)
	good := pass(v, now.Add(time.Hour))
	for _, s := range []string{"", good, "a=b; " + good, "\t" + good, "waypost_pass=1.0", "waypost_pass=99999999999999999999." + strings.Repeat("f", 64), ";;=;"} {
		f.Add(s)
	}
	f.Fuzz(func(t *testing.T, cookie string) {
		r := protected(t, rules.Source{}, v)
		res := rules.Resolve(r, visit{cookie: cookie}.facts(r))
		if res.Password == res.Link {
			t.Fatal("neither asked nor let pass")
		}
		if res.Link { // the text names a time, and the MAC of that time
			ok := false
			for _, part := range strings.Split(cookie, ";") {
				var expires int64
				value := strings.TrimPrefix(strings.Trim(part, " \t"), rules.PassCookie+"=")
				if _, err := fmt.Sscanf(value, "%d.", &expires); err == nil {
					ok = ok || strings.EqualFold(strings.TrimLeft(value, "0"), strings.TrimLeft(string(v.AppendPass(nil, expires)), "0")) && expires > now.Unix()
				}
			}
			if !ok {
				t.Fatalf("%q passes", cookie)
			}
		}
	})
}

func BenchmarkPassword(b *testing.B) {
	v := verifier(1)
	r := protected(b, rules.Source{}, v)
	f := visit{cookie: pass(v, now.Add(time.Hour))}.facts(r)
	b.ReportAllocs()
	for b.Loop() {
		if !rules.Resolve(r, f).Link {
			b.Fatal("does not pass")
		}
	}
}
