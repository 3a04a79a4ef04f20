package target

import (
	"testing"

	"github.com/stretchr/testify/require"
)

func TestCheckHost_RefusesNamesThatNoPublicResolverKnows(t *testing.T) {
	for _, name := range []string{"a.onion", "a.b.mail", "a.lan"} {
		require.Error(t, Rules{}.checkHost(host{name: name}), name)
		require.NoError(t, Rules{AllowPrivate: true}.checkHost(host{name: name}), name)
	}
	for _, name := range []string{"onion.example.org", "mail.example.org", "a.notonion"} {
		require.NoError(t, Rules{}.checkHost(host{name: name}), name)
	}
}
