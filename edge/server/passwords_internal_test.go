package server

import (
	"cmp"
	"crypto/sha256"
	"encoding/base64"
	"net/url"
	"regexp"
	"strings"
	"sync"
	"testing"
	"testing/synctest"
	"time"
	"unicode/utf8"

	"github.com/stretchr/testify/require"
	"golang.org/x/text/unicode/norm"

	"waypost/rules"
)

func TestPasswordPages_SayWhatIsWrongAndLoadNothing(t *testing.T) {
	for name, pages := range map[string]map[int][]byte{"en": passwordPages.english, "de": passwordPages.german} {
		require.Len(t, pages, 4)
		for status, page := range pages {
			text := string(page)
			require.Contains(t, text, `<html lang="`+name+`">`)
			require.Contains(t, text, `<label for="password">`)
			require.Contains(t, text, `autocomplete="current-password"`)
			require.NotContains(t, text, "http")
			require.NotContains(t, text, "<script")
			require.NotRegexp(t, `\{[a-z]+\}`, text, "everything is filled in")
			require.Equal(t, status != 200, strings.Contains(text, `role="alert"`))
			require.Equal(t, status != 200, strings.Contains(text, `aria-describedby="fault"`))
			require.Equal(t, status == 403, strings.Contains(text, `aria-invalid="true"`))
			require.Less(t, len(page), 3<<10)
		}
	}
	style := regexp.MustCompile(`(?s)<style>(.*)</style>`).FindStringSubmatch(string(passwordPages.english[200]))[1]
	sum := sha256.Sum256([]byte(style))
	require.Contains(t, string(formPolicy), "style-src 'sha256-"+base64.StdEncoding.EncodeToString(sum[:])+"';")
}

// cheap is a verifier that takes next to no time.
var cheap = rules.Password{Memory: 8, Passes: 1, Lanes: 1}

// fillHashing lets as many passwords wait as there are visitors, and returns when they
// wait. The hash that runs ends with the returned function.
func fillHashing(t *testing.T, h *hashing, visitors []attempt) (end func()) {
	t.Helper()
	running := new(leaky)
	require.True(t, h.turn.Acquire(t.Context(), running))
	for _, by := range visitors {
		go h.compare(&cheap, nil, by)
	}
	synctest.Wait()
	return sync.OnceFunc(func() { h.turn.Release(running, 1); synctest.Wait() })
}

func TestHashing_StrangersLeaveOtherLinksTheirTurn(t *testing.T) {
	bob := attempt{link: new(leaky), neighbours: new(leaky)}
	own, near := new(leaky), new(leaky)
	of := func(n int, link, neighbours *leaky) (all []attempt) {
		for range n {
			by := attempt{link: link, neighbours: neighbours}
			if link == nil {
				by.link = new(leaky)
			}
			if neighbours == nil {
				by.neighbours = new(leaky)
			}
			all = append(all, by)
		}
		return all
	}
	for name, strangers := range map[string][]attempt{
		"one link from many networks":        of(1000, own, nil),
		"many links from one network":        of(1000, nil, near),
		"one link from one network":          of(1000, own, near),
		"many links, each from some network": of(200, nil, nil),
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHashing()
				end := fillHashing(t, h, strangers)
				busy := make(chan bool, 1)
				go func() { _, b := h.compare(&cheap, nil, bob); busy <- b }()
				synctest.Wait()
				end()
				require.False(t, <-busy)
				require.Zero(t, h.neighbours.Held()+h.links.Held()+h.turn.Held(), "every place is free again")
			})
		})
	}
}

func TestHashing_BoundsThePasswordsThatWait(t *testing.T) {
	for name, c := range map[string]struct {
		link, neighbours *leaky
		most             int
	}{
		"neighbours": {nil, new(leaky), maxNeighboursHashing},
		"a link":     {new(leaky), nil, maxLinkHashing},
		"all":        {nil, nil, maxHashing},
	} {
		t.Run(name, func(t *testing.T) {
			synctest.Test(t, func(t *testing.T) {
				h := newHashing()
				var visitors []attempt
				for range c.most + 1 {
					visitors = append(visitors, attempt{link: cmp.Or(c.link, new(leaky)), neighbours: cmp.Or(c.neighbours, new(leaky))})
				}
				end := fillHashing(t, h, visitors[:c.most])
				_, busy := h.compare(&cheap, nil, visitors[c.most])
				require.True(t, busy)
				end()
				_, busy = h.compare(&cheap, nil, visitors[c.most])
				require.False(t, busy)
			})
		})
	}
}

func TestHashing_EndsToWaitForATurnThatDoesNotCome(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		h := newHashing()
		end := fillHashing(t, h, nil)
		started := time.Now()
		_, busy := h.compare(&cheap, nil, attempt{link: new(leaky), neighbours: new(leaky)})
		require.True(t, busy)
		require.Equal(t, maxHashingWait, time.Since(started))
		end()
		require.Zero(t, h.neighbours.Held()+h.links.Held()+h.turn.Held())
	})
}

func TestWantsGerman_ByThePreferredLanguage(t *testing.T) {
	for header, want := range map[string]bool{
		"": false, "de": true, "de-AT,de;q=0.9,en;q=0.8": true, "en-US,en;q=0.9,de;q=0.8": false, "de,en": false, "fr": false,
	} {
		require.Equal(t, want, rules.PrefersGerman([]byte(header)), header)
	}
}

// FuzzPasswordIn compares with the parser of net/url for the forms that browsers send.
func FuzzPasswordIn(f *testing.F) {
	for _, s := range []string{
		"password=x", "a=b&password=%C3%BC+%26", "password=", "password=%", "password=%f", "password=u%CC%88", "&&=&password", "password=\xff",
	} {
		f.Add([]byte(s))
	}
	f.Fuzz(func(t *testing.T, form []byte) {
		password, ok := passwordIn(form)
		if !ok {
			require.Empty(t, password)
			return
		}
		require.NotEmpty(t, password)
		require.LessOrEqual(t, len(password), rules.MaxPassword)
		require.True(t, utf8.Valid(password))
		require.True(t, norm.NFC.IsNormal(password))
		if values, err := url.ParseQuery(string(form)); err == nil && len(values) == 1 {
			require.Equal(t, norm.NFC.String(values.Get("password")), string(password))
		}
	})
}
