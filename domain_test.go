package waypost_test

import (
	"strings"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost"
)

func TestADomainsRecordSaysWhereItLeads(t *testing.T) {
	d, err := waypost.DecodeDomain([]byte(`{"id":1,"host":"Go.example.com","workspace_id":null,"root_url":"https://example.com/","not_found_url":"http://example.com/404?a=\"b\"","maintenance_url":null}`))
	require.NoError(t, err)
	require.Equal(t, "go.example.com", d.Host)
	res, ok := d.AtRoot()
	require.True(t, ok)
	require.Equal(t, waypost.Resolution{Status: 302, Location: []byte("https://example.com/")}, res)
	require.Equal(t, waypost.Resolution{Status: 302, Location: []byte(`http://example.com/404?a="b"`)}, d.InsteadOf(waypost.NotFound))
	for _, other := range []waypost.Resolution{
		{Status: 410}, {Status: 400}, {Status: 302, Location: []byte("https://a.example"), Link: true},
	} {
		require.Equal(t, other, d.InsteadOf(other), "only what is unknown leads there")
	}

	d, err = waypost.DecodeDomain([]byte(`{"host":"a.example","root_url":"https://example.com/","maintenance_url":"https://example.com/soon"}`))
	require.NoError(t, err)
	soon := waypost.Resolution{Status: 302, Location: []byte("https://example.com/soon")}
	res, ok = d.AtRoot()
	require.True(t, ok)
	require.Equal(t, soon, res)
	require.Equal(t, soon, d.InsteadOf(waypost.Resolution{
		Status: 301, Location: []byte("https://a.example"), MaxAge: 60, Link: true, Rule: 1, Variant: 2, Keep: true, Gated: true,
	}), "and nothing of the link is left")
	for _, other := range []waypost.Resolution{
		{Status: 302, Location: []byte("https://a.example/expired")}, {Status: 410}, {Status: 503}, waypost.NotFound,
	} {
		require.Equal(t, other, d.InsteadOf(other), "maintenance is for links that live")
	}

	for _, payload := range []string{`{"host":"a.example"}`, `{"host":"a.example","root_url":null,"not_found_url":""}`} {
		d, err := waypost.DecodeDomain([]byte(payload))
		require.NoError(t, err)
		require.Equal(t, waypost.Domain{Host: "a.example"}, d)
		_, ok := d.AtRoot()
		require.False(t, ok)
		require.Equal(t, waypost.NotFound, d.InsteadOf(waypost.NotFound))
	}
}

func TestADomainWithABadTargetKeepsItsHost(t *testing.T) {
	for _, bad := range []string{
		"javascript:alert(1)", "https://a.example/\\r\\nX: y", "//a.example", "https://", "https://ä.example",
		"https://a.example/" + strings.Repeat("x", waypost.MaxDomainURL),
	} {
		d, err := waypost.DecodeDomain([]byte(`{"host":"a.example","root_url":"https://b.example","not_found_url":"` + bad + `"}`))
		require.Error(t, err, bad)
		require.Equal(t, waypost.Domain{Host: "a.example"}, d)
	}
	for _, bad := range []string{"", "[]", `{"host":7}`, `{"host":""}`, "null"} {
		d, err := waypost.DecodeDomain([]byte(bad))
		require.Error(t, err, bad)
		require.Empty(t, d.Host)
	}
}

func FuzzDecodeDomain(f *testing.F) {
	f.Add([]byte(`{"host":"a.example","root_url":"https://b.example/","not_found_url":null}`))
	f.Add([]byte(`{"host":"a.example","root_url":"javascript:alert(1)"}`))
	f.Fuzz(func(t *testing.T, payload []byte) {
		d, err := waypost.DecodeDomain(payload)
		for _, location := range [][]byte{d.Root, d.NotFound, d.Maintenance} {
			if len(location) > 0 {
				require.NoError(t, err)
				require.True(t, waypost.ValidLocation(location))
				require.LessOrEqual(t, len(location), waypost.MaxDomainURL)
			}
		}
	})
}
