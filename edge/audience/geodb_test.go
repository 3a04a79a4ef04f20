package audience_test

import (
	"bytes"
	"context"
	"log/slog"
	"net"
	"os"
	"path/filepath"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/maxmind/mmdbwriter"
	"github.com/maxmind/mmdbwriter/mmdbtype"
	"github.com/prometheus/client_golang/prometheus"
	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/edge/audience"
)

// spot describes a network in a database; without a city there is none in it.
type spot struct{ country, city string }

// cityDatabase makes a database as MaxMind and DB-IP do.
func cityDatabase(t testing.TB, kind string, networks map[string]spot) []byte {
	t.Helper()
	w, err := mmdbwriter.New(mmdbwriter.Options{
		DatabaseType: kind, RecordSize: 24, BuildEpoch: 1_700_000_000, IncludeReservedNetworks: true, Languages: []string{"en", "de"},
	})
	require.NoError(t, err)
	for network, s := range networks {
		_, prefix, err := net.ParseCIDR(network)
		require.NoError(t, err)
		record := mmdbtype.Map{"continent": mmdbtype.Map{"code": mmdbtype.String("EU")}}
		if s.country != "" {
			record["country"] = mmdbtype.Map{
				"iso_code": mmdbtype.String(s.country), "geoname_id": mmdbtype.Uint32(1),
				"names": mmdbtype.Map{"en": mmdbtype.String("A Country")},
			}
		}
		if s.city != "" {
			record["city"] = mmdbtype.Map{"names": mmdbtype.Map{"en": mmdbtype.String(s.city), "de": mmdbtype.String("auf Deutsch")}}
		}
		require.NoError(t, w.Insert(prefix, record))
	}
	var b bytes.Buffer
	_, err = w.WriteTo(&b)
	require.NoError(t, err)
	return b.Bytes()
}

// replace puts content in the place of a file in one step, as updaters do.
func replace(t testing.TB, file string, content []byte, at time.Time) {
	t.Helper()
	require.NoError(t, os.WriteFile(file+".new", content, 0o600))
	require.NoError(t, os.Chtimes(file+".new", at, at))
	require.NoError(t, os.Rename(file+".new", file))
}

func whereIs(t *testing.T, a *audience.Audience, salts days, address string) spot {
	t.Helper()
	p, _ := a.Profile(&waypost.Click{At: noon, Address: seal(t, salts, address, noon), Agent: []byte("curl/8.5.0")})
	sound(t, p)
	return spot{p.Country, p.City}
}

func TestGeoDB_CountryAndCityAreThoseOfTheDatabase(t *testing.T) {
	long := strings.Repeat("ö", 100)
	for name, kind := range map[string]string{"MaxMind's": "GeoLite2-City", "DB-IP's": "DBIP-City-Lite", "of countries": "GeoLite2-Country"} {
		t.Run(name, func(t *testing.T) {
			file := filepath.Join(t.TempDir(), "places.mmdb")
			replace(t, file, cityDatabase(t, kind, map[string]spot{
				"192.0.2.0/24": {"DE", "Köln"}, "198.51.100.0/24": {"BR", ""}, "2001:db8::/32": {"FR", "Paris"},
				"203.0.113.0/25": {"", "Nowhere"}, "203.0.113.128/26": {"xx", "Bad"}, "203.0.113.192/26": {"US", long + "\n\xff"},
			}), time.Now())
			salts := twoDays()
			places := audience.OpenGeoDB(audience.GeoDBConfig{File: file})
			require.Equal(t, int64(1_700_000_000), places.Built().Unix())
			a := audience.New(audience.Config{Salts: salts, GeoDB: places})
			for range 2 { // looked up, and remembered
				require.Equal(t, spot{"DE", "Köln"}, whereIs(t, a, salts, "192.0.2.7"))
				require.Equal(t, spot{"BR", ""}, whereIs(t, a, salts, "198.51.100.1"))
				require.Equal(t, spot{"FR", "Paris"}, whereIs(t, a, salts, "2001:db8::9"))
				require.Equal(t, spot{}, whereIs(t, a, salts, "203.0.113.1"), "no city without a country")
				require.Equal(t, spot{}, whereIs(t, a, salts, "203.0.113.129"), "no country is called xx")
				require.Equal(t, spot{"US", long[:128]}, whereIs(t, a, salts, "203.0.113.200"))
				require.Equal(t, spot{}, whereIs(t, a, salts, "192.88.99.1"), "not in it")
			}
		})
	}
}

func TestGeoDB_NewDatabaseIsTakenAndABrokenOneLeavesTheOldOne(t *testing.T) {
	file := filepath.Join(t.TempDir(), "places.mmdb")
	salts, at := twoDays(), time.Now().Add(-time.Hour)
	next := func() time.Time { at = at.Add(time.Second); return at }
	var log bytes.Buffer
	metrics := prometheus.NewRegistry()
	places := audience.OpenGeoDB(audience.GeoDBConfig{File: file, Logger: slog.New(slog.NewTextHandler(&log, nil)), Metrics: metrics})
	a := audience.New(audience.Config{Salts: salts, GeoDB: places})
	require.Contains(t, log.String(), "cannot use", "it is not there yet")
	require.Equal(t, spot{}, whereIs(t, a, salts, "192.0.2.7"))

	good := cityDatabase(t, "GeoLite2-City", map[string]spot{"192.0.2.0/24": {"DE", "Köln"}})
	replace(t, file, good, next())
	places.Look()
	require.Equal(t, spot{"DE", "Köln"}, whereIs(t, a, salts, "192.0.2.7"))

	other := cityDatabase(t, "GeoLite2-City", map[string]spot{"192.0.2.0/24": {"FR", "Lyon"}})
	for name, content := range map[string][]byte{
		"empty": nil, "cut": other[:len(other)-200], "noise": bytes.Repeat([]byte("noise"), 1000), "the beginning": other[:100],
		"of networks": cityDatabase(t, "GeoLite2-ASN", map[string]spot{"192.0.2.0/24": {"FR", "Lyon"}}),
	} {
		log.Reset()
		replace(t, file, content, next())
		places.Look()
		require.Equal(t, spot{"DE", "Köln"}, whereIs(t, a, salts, "192.0.2.7"), name)
		require.Contains(t, log.String(), "level=ERROR", name)
		log.Reset()
		places.Look()
		require.Empty(t, log.String(), "said once")
	}
	require.NoError(t, os.Remove(file))
	places.Look()
	require.Equal(t, spot{"DE", "Köln"}, whereIs(t, a, salts, "192.0.2.7"), "removed")

	replace(t, file, other, next())
	places.Look()
	require.Equal(t, spot{"FR", "Lyon"}, whereIs(t, a, salts, "192.0.2.7"))
	require.Equal(t, 1.7e9, shown(t, metrics, "waypost_geoip_build_time_seconds"))
	require.Equal(t, 7.0, shown(t, metrics, "waypost_geoip_load_failures_total"))
}

// shown adds up all values of a metric.
func shown(t *testing.T, metrics prometheus.Gatherer, name string) (sum float64) {
	t.Helper()
	families, err := metrics.Gather()
	require.NoError(t, err)
	for _, f := range families {
		if f.GetName() != name {
			continue
		}
		for _, m := range f.GetMetric() {
			sum += m.GetGauge().GetValue() + m.GetCounter().GetValue()
		}
	}
	return sum
}

func TestGeoDB_FileIsLookedAtWhileItRuns(t *testing.T) {
	file := filepath.Join(t.TempDir(), "places.mmdb")
	read := make(chan struct{}, 1)
	logger := slog.New(tells{slog.DiscardHandler, "read the GeoIP database", read})
	places := audience.OpenGeoDB(audience.GeoDBConfig{File: file, Every: time.Millisecond, Logger: logger})
	ctx, cancel := context.WithCancel(t.Context())
	var running sync.WaitGroup
	running.Go(func() { places.Run(ctx) })
	replace(t, file, cityDatabase(t, "GeoLite2-City", map[string]spot{"192.0.2.0/24": {"DE", "Köln"}}), time.Now())
	<-read
	salts := twoDays()
	a := audience.New(audience.Config{Salts: salts, GeoDB: places})
	require.Equal(t, spot{"DE", "Köln"}, whereIs(t, a, salts, "192.0.2.7"))
	cancel()
	running.Wait()
}

// reports says when a message is logged.
type tells struct {
	slog.Handler
	message string
	logged  chan struct{}
}

func (h tells) Enabled(context.Context, slog.Level) bool { return true }

func (h tells) Handle(_ context.Context, r slog.Record) error {
	if r.Message == h.message {
		select {
		case h.logged <- struct{}{}:
		default:
		}
	}
	return nil
}

func TestGeoDB_DatabaseThatIsBrokenInPartsIsReportedOnceAndWithoutTheAddress(t *testing.T) {
	content := cityDatabase(t, "GeoLite2-City", map[string]spot{"203.0.113.77/32": {"DE", "Köln"}})
	i := bytes.Index(content, []byte("iso_code"))
	require.Positive(t, i)
	content[i-1] = 0xff // of a kind that there is not
	file := filepath.Join(t.TempDir(), "places.mmdb")
	replace(t, file, content, time.Now())
	var log bytes.Buffer
	salts := twoDays()
	metrics := prometheus.NewRegistry()
	logger := slog.New(slog.NewTextHandler(&log, nil))
	places := audience.OpenGeoDB(audience.GeoDBConfig{File: file, Logger: logger, Metrics: metrics})
	a := audience.New(audience.Config{Salts: salts, GeoDB: places})
	for range 3 {
		require.Equal(t, spot{}, whereIs(t, a, salts, "203.0.113.77"))
	}
	require.Equal(t, 1, strings.Count(log.String(), "broken in parts"), log.String())
	require.NotContains(t, log.String(), "203.0.113")
}
