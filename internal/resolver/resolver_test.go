package resolver_test

import (
	"net"
	"testing"

	"github.com/stretchr/testify/require"

	"waypost/internal/dnstest"
	"waypost/internal/resolver"
)

func TestNew_AsksTheNextServerWhenOneDoesNotAnswer(t *testing.T) {
	broken, good := dnstest.Start(t), dnstest.Start(t)
	broken.Fail(true)
	good.SetTexts("_waypost.example.com", "proof")
	r := resolver.New([]string{broken.Addr, good.Addr})
	for range 4 { // it begins with another one each time
		found, err := r.LookupTXT(t.Context(), "_waypost.example.com.")
		require.NoError(t, err)
		require.Equal(t, []string{"proof"}, found)
	}
	_, err := r.LookupTXT(t.Context(), "unheard-of.example.com.")
	var is *net.DNSError
	require.ErrorAs(t, err, &is)
	require.True(t, is.IsNotFound)
	require.Same(t, net.DefaultResolver, resolver.New(nil).Resolver)

	_, err = resolver.New([]string{broken.Addr}).LookupTXT(t.Context(), "_waypost.example.com.")
	require.ErrorAs(t, err, &is)
	require.Equal(t, broken.Addr, is.Server)
}
