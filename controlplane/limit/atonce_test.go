package limit

import (
	"fmt"
	"net/netip"
	"testing"

	"github.com/stretchr/testify/require"
)

func TestAtOnce_NobodyHasMoreUnderWayThanAnAddressMay(t *testing.T) {
	a := NewAtOnce(2)
	office := netip.MustParseAddr("192.0.2.1")
	first, ok := a.Enter(office)
	require.True(t, ok)
	_, ok = a.Enter(netip.MustParseAddr("::ffff:192.0.2.1"))
	require.True(t, ok)
	_, ok = a.Enter(office)
	require.False(t, ok)
	_, ok = a.Enter(netip.MustParseAddr("198.51.100.1"))
	require.True(t, ok, "others are not held up")
	first()
	first() // counts once
	_, ok = a.Enter(office)
	require.True(t, ok)
	_, ok = a.Enter(office)
	require.False(t, ok)
}

func TestAtOnce_WhoHasManyAddressesSideBySideIsBoundedToo(t *testing.T) {
	for _, form := range []string{"192.0.2.%d", "2001:db8:0:%x::1"} {
		a := NewAtOnce(2)
		var leave []func()
		for i := range 4 * 2 {
			l, ok := a.Enter(netip.MustParseAddr(fmt.Sprintf(form, i)))
			require.True(t, ok, form)
			leave = append(leave, l)
		}
		_, ok := a.Enter(netip.MustParseAddr(fmt.Sprintf(form, 200)))
		require.False(t, ok, form)
		for _, l := range leave {
			l()
		}
		require.Empty(t, a.running, "nothing is kept of those who have left")
	}
}

func TestAtOnce_ThoseWithoutAnAddressShareOne(t *testing.T) {
	a := NewAtOnce(1)
	leave, ok := a.Enter(netip.Addr{})
	require.True(t, ok)
	_, ok = a.Enter(netip.Addr{})
	require.False(t, ok)
	leave()
	require.Empty(t, a.running)
	none, ok := (*AtOnce)(nil).Enter(netip.Addr{})
	require.True(t, ok)
	none()
}
