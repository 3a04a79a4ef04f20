package httpapi

import (
	"context"
	"net/netip"
	"time"

	"waypost"
	"waypost/controlplane/limit"
	"waypost/internal/semaphore"
)

const (
	// signInsAtOnce bounds the passwords that are checked, or wait for it, at the same
	// moment: from all addresses, from one, and from the network around it, because a client
	// with many addresses has adjacent ones.
	signInsAtOnce, signInsOfAddress, signInsAround = 256, 4, 16

	// passwordsAtOnce bounds the passwords that are checked at the same moment. Package
	// controlplane computes fewer at a time.
	passwordsAtOnce = 4
)

// signIns lets passwords be checked. Networks have their turns, so that clients of one
// delay clients of others by one password at a time.
type signIns struct {
	addresses, networks, passwords *semaphore.Keyed[netip.Prefix]
}

func newSignIns() *signIns {
	return &signIns{
		addresses: semaphore.NewKeyed[netip.Prefix](signInsAtOnce, signInsOfAddress),
		networks:  semaphore.NewKeyed[netip.Prefix](signInsAtOnce, signInsAround),
		passwords: semaphore.NewKeyed[netip.Prefix](passwordsAtOnce, passwordsAtOnce),
	}
}

// enter waits until a password from an address may be checked. The caller calls leave
// after that.
func (s *signIns) enter(ctx context.Context, from netip.Addr) (leave func(), err error) {
	address, network := limit.Network(from), limit.Around(from)
	if !s.addresses.TryAcquire(address, 1) {
		return nil, errManySignIns()
	}
	if !s.networks.TryAcquire(network, 1) {
		s.addresses.Release(address, 1)
		return nil, errManySignIns()
	}
	wait := func() { s.addresses.Release(address, 1); s.networks.Release(network, 1) }
	if !s.passwords.Acquire(ctx, network) {
		wait()
		return nil, waypost.Errorf(waypost.EUnavailable, "too many are signing in at once")
	}
	return func() { s.passwords.Release(network, 1); wait() }, nil
}

func errManySignIns() error {
	return tooMany("too many are signing in at once from this network", time.Second)
}
