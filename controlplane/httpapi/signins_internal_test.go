package httpapi

import (
	"fmt"
	"net/netip"
	"testing"
	"testing/synctest"

	"github.com/stretchr/testify/require"
)

func TestSignIns_AddressAndNetworkAreBounded(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		for _, form := range []string{"192.0.2.%d", "2001:db8:0:%x::1"} {
			s := newSignIns()
			enter := func(host int) error {
				result := make(chan error, 1)
				go func() {
					leave, err := s.enter(t.Context(), netip.MustParseAddr(fmt.Sprintf(form, host)))
					if result <- err; err == nil {
						<-t.Context().Done()
						leave()
					}
				}()
				synctest.Wait()
				select {
				case err := <-result:
					return err
				default:
					return nil // it waits
				}
			}
			for range signInsOfAddress {
				require.NoError(t, enter(1))
			}
			require.Error(t, enter(1), "an address has too many")
			for host := range signInsAround - signInsOfAddress {
				require.NoError(t, enter(2+host))
			}
			require.Error(t, enter(200), "a client with many addresses is bounded too")
		}
	})
}

// Forty-eight clients of three networks, who never stop, cannot keep a user of another
// network from signing in.
func TestSignIns_ClientsOfThreeNetworksHoldUpNoOther(t *testing.T) {
	synctest.Test(t, func(t *testing.T) {
		s := newSignIns()
		checked, next := make(chan string), make(chan struct{})
		enter := func(from string) {
			leave, err := s.enter(t.Context(), netip.MustParseAddr(from))
			if err != nil {
				return // the test is over
			}
			select {
			case checked <- from:
			case <-t.Context().Done():
			}
			select {
			case <-next:
			case <-t.Context().Done():
			}
			leave()
		}
		for n := range 3 {
			for host := range 16 {
				go func() {
					for t.Context().Err() == nil {
						enter(fmt.Sprintf("198.51.%d.%d", n, host))
					}
				}()
			}
		}
		for range passwordsAtOnce {
			<-checked
		}
		synctest.Wait()
		go enter("203.0.113.1")
		synctest.Wait()
		before := 0
		for from := ""; from != "203.0.113.1"; before++ {
			next <- struct{}{}
			from = <-checked
		}
		require.LessOrEqual(t, before, 4, "one of each other network at most goes first")
	})
}
