package controlplane_test

import (
	"context"
	"fmt"
	"strings"
	"sync"
	"sync/atomic"
	"testing"
	"time"

	"github.com/stretchr/testify/require"

	"waypost"
	"waypost/api"
	"waypost/controlplane"
)

// owner is an administrator of one more workspace.
func (s *system) owner(t *testing.T, id waypost.WorkspaceID) controlplane.Actor {
	t.Helper()
	_, err := s.hand.Exec(t.Context(), `INSERT INTO workspace (id, name, slug) VALUES ($1, $2, $2)`, int64(id), fmt.Sprintf("w%d", id))
	require.NoError(t, err)
	return controlplane.Actor{Workspace: id, Scopes: []controlplane.Scope{controlplane.ScopeAdmin}}
}

// served reports which workspace's links are under a host; 0 is none's.
func (s *system) served(t *testing.T, host string) waypost.WorkspaceID {
	t.Helper()
	d, _, err := s.db.DomainOf(t.Context(), host, true)
	require.NoError(t, err)
	return d.Workspace
}

// state returns a domain as its owner sees it.
func (s *system) state(t *testing.T, by controlplane.Actor, id waypost.DomainID) controlplane.OwnedDomain {
	t.Helper()
	all, err := s.Domains.Domains(t.Context(), by)
	require.NoError(t, err)
	for i := range all {
		if all[i].ID == id {
			return all[i]
		}
	}
	require.Fail(t, "there is no such domain")
	return controlplane.OwnedDomain{}
}

// daily makes the records of all domains due, and looks for them.
func (s *system) daily(t *testing.T) {
	t.Helper()
	_, err := s.hand.Exec(t.Context(), `UPDATE domain_proof SET checked_at = checked_at - interval '25 hours', created_at = created_at - interval '25 hours'`)
	require.NoError(t, err)
	require.NoError(t, s.Domains.CheckProofs(t.Context()))
}

func TestDomains_PendingDomainIsNotServed(t *testing.T) {
	s := start(t)
	owner := s.owner(t, 7)
	d, _, err := s.Domains.AddDomain(t.Context(), owner, api.NewDomain{Host: "Bücher.example", RootURL: "https://example.com/"})
	require.NoError(t, err)
	require.Equal(t, controlplane.DomainPending, d.State)
	require.Equal(t, "xn--bcher-kva.example", d.Host)
	require.Regexp(t, `^waypost-[0-9a-f]{32}$`, d.Proof)
	require.Zero(t, s.served(t, d.Host))
	_, leads, err := s.Domains.Root(t.Context(), d.Host)
	require.NoError(t, err)
	require.False(t, leads)
	_, _, err = s.Links.Create(t.Context(), owner, wish(under(d.Host)))
	require.Equal(t, waypost.EInvalid, waypost.CodeOf(err))
	_, _, err = s.Links.Create(t.Context(), owner, controlplane.NewLink{OriginalURL: "https://bücher.example/x"})
	require.NoError(t, err, "a host that is not served is a target like any other")
	_, _, err = s.Domains.AddDomain(t.Context(), owner, api.NewDomain{Host: d.Host})
	require.Equal(t, waypost.EConflict, waypost.CodeOf(err), "the workspace has it")

	for _, texts := range [][]string{nil, {"v=spf1 -all"}, {strings.ToUpper(d.Proof), d.Proof + "0", "x" + d.Proof}} {
		s.dns.SetTexts("_waypost."+d.Host, texts...)
		_, _, err = s.Domains.Verify(t.Context(), owner, d.ID)
		require.Equal(t, waypost.EInvalid, waypost.CodeOf(err), texts)
		require.Contains(t, waypost.MessageOf(err), d.Proof)
		require.Contains(t, waypost.MessageOf(err), "_waypost."+d.Host)
	}
	s.dns.Fail(true)
	_, _, err = s.Domains.Verify(t.Context(), owner, d.ID)
	require.Equal(t, waypost.EUnavailable, waypost.CodeOf(err))
	s.dns.Fail(false)
	require.Zero(t, s.served(t, d.Host))

	// The name may be an alias, and may have other records.
	s.dns.SetAlias("_waypost."+d.Host, "proofs.example.net")
	s.dns.SetTexts("proofs.example.net", "v=spf1 -all", d.Proof)
	d, at, err := s.Domains.Verify(t.Context(), owner, d.ID)
	require.NoError(t, err)
	require.False(t, at.IsZero())
	require.Equal(t, controlplane.DomainProved, d.State)
	require.Equal(t, waypost.WorkspaceID(7), s.served(t, d.Host))
	_, _, err = s.Links.Create(t.Context(), owner, wish(under(d.Host)))
	require.NoError(t, err)
}

func TestDomains_TakeoverOfANameThatLeadsToTheEdgesIsRefused(t *testing.T) {
	s := start(t)
	victim, attacker := s.owner(t, 7), s.owner(t, 8)
	mine, _ := s.addProved(t, victim, api.NewDomain{Host: "links.example.org"})
	theirs, _, err := s.Domains.AddDomain(t.Context(), attacker,
		api.NewDomain{Host: "links.example.org", NotFoundURL: "https://phish.example/"})
	require.NoError(t, err, "to add it is no harm, and tells nothing")
	require.NotEqual(t, mine.Proof, theirs.Proof)
	_, _, err = s.Domains.Verify(t.Context(), attacker, theirs.ID)
	require.Equal(t, waypost.EInvalid, waypost.CodeOf(err))
	_, _, err = s.Domains.Verify(t.Context(), attacker, mine.ID)
	require.Equal(t, waypost.ENotFound, waypost.CodeOf(err))
	_, _, err = s.Domains.Approve(t.Context(), attacker, theirs.ID)
	require.Equal(t, waypost.EForbidden, waypost.CodeOf(err))

	// Both records: the first keeps the host.
	s.dns.SetTexts("_waypost.links.example.org", mine.Proof, theirs.Proof)
	_, _, err = s.Domains.Verify(t.Context(), attacker, theirs.ID)
	require.Equal(t, waypost.EConflict, waypost.CodeOf(err))
	s.daily(t)
	require.Equal(t, waypost.WorkspaceID(7), s.served(t, "links.example.org"))
	_, _, err = s.Domains.Approve(t.Context(), operator, theirs.ID)
	require.Equal(t, waypost.EConflict, waypost.CodeOf(err))

	// The name has changed hands: the former owner's record is gone.
	s.dns.SetTexts("_waypost.links.example.org", theirs.Proof)
	theirs, _, err = s.Domains.Verify(t.Context(), attacker, theirs.ID)
	require.NoError(t, err)
	require.Equal(t, controlplane.DomainProved, theirs.State)
	require.Equal(t, waypost.WorkspaceID(8), s.served(t, "links.example.org"))
	now := s.state(t, victim, mine.ID)
	require.Equal(t, controlplane.DomainSuspended, now.State)
	require.Equal(t, "links.example.org", now.Host)
	log, err := s.db.Audit(t.Context(), 7, 0, 1)
	require.NoError(t, err)
	require.Equal(t, "domains.suspend links.example.org", log[0].Action+" "+log[0].Subject)
	require.NotContains(t, string(log[0].Detail)+log[0].Actor, "8", "nobody learns who has it")
	_, _, err = s.Domains.Verify(t.Context(), victim, mine.ID)
	require.Equal(t, waypost.EInvalid, waypost.CodeOf(err))

	s.dns.SetTexts("_waypost.links.example.org", mine.Proof)
	_, _, err = s.Domains.Verify(t.Context(), victim, mine.ID)
	require.NoError(t, err)
	require.Equal(t, waypost.WorkspaceID(7), s.served(t, "links.example.org"), "and back again")
}

func TestDomains_PrintedLinkSurvivesAResolversFailure(t *testing.T) {
	s := start(t)
	owner := s.owner(t, 7)
	d, _ := s.addProved(t, owner, api.NewDomain{Host: "qr.example.org"})
	record := controlplane.ProofName(d.Host)

	s.dns.Fail(true)
	for range 3 {
		s.daily(t)
	}
	now := s.state(t, owner, d.ID)
	require.Equal(t, controlplane.DomainProved, now.State)
	require.Zero(t, now.UnprovedSince, "no answer says nothing")

	s.dns.Fail(false)
	s.dns.SetTexts(record)
	s.daily(t)
	now = s.state(t, owner, d.ID)
	require.Equal(t, controlplane.DomainProved, now.State)
	require.WithinDuration(t, time.Now(), now.UnprovedSince, time.Minute)
	require.Equal(t, now.UnprovedSince.Add(30*24*time.Hour), now.SuspendedAt())
	log, err := s.db.Audit(t.Context(), 7, 0, 1)
	require.NoError(t, err)
	require.Equal(t, "domains.unproved", log[0].Action, "its owner is warned")
	s.daily(t)
	again, err := s.db.Audit(t.Context(), 7, 0, 1)
	require.NoError(t, err)
	require.Equal(t, "domains.unproved", again[0].Action)
	require.Greater(t, again[0].ID, log[0].ID, "every day")
	asked := s.dns.Asked(record)
	require.NoError(t, s.Domains.CheckProofs(t.Context()))
	require.Equal(t, asked, s.dns.Asked(record), "once a day")

	s.dns.SetTexts(record, d.Proof)
	s.daily(t)
	require.Zero(t, s.state(t, owner, d.ID).UnprovedSince)

	s.dns.SetTexts(record)
	s.daily(t)
	_, err = s.hand.Exec(t.Context(), `UPDATE domain_proof SET denied_since = now() - interval '29 days 23 hours'`)
	require.NoError(t, err)
	s.daily(t)
	require.Equal(t, waypost.WorkspaceID(7), s.served(t, d.Host))
	_, err = s.hand.Exec(t.Context(), `UPDATE domain_proof SET denied_since = now() - interval '30 days'`)
	require.NoError(t, err)
	s.daily(t)
	require.Zero(t, s.served(t, d.Host))
	require.Equal(t, controlplane.DomainSuspended, s.state(t, owner, d.ID).State)

	s.dns.SetTexts(record, d.Proof)
	s.daily(t)
	require.Equal(t, waypost.WorkspaceID(7), s.served(t, d.Host), "the daily look brings it back")
}

func TestDomains_OperatorsSeeApproveAndRemoveAll(t *testing.T) {
	s := start(t)
	owner := s.owner(t, 7)
	d, _, err := s.Domains.AddDomain(t.Context(), owner, api.NewDomain{Host: "go.corp.example"})
	require.NoError(t, err)
	_, err = s.Domains.EveryDomain(t.Context(), owner)
	require.Equal(t, waypost.EForbidden, waypost.CodeOf(err))
	all, err := s.Domains.EveryDomain(t.Context(), operator)
	require.NoError(t, err)
	require.Len(t, all, 2)
	require.Equal(t, "7 go.corp.example pending", fmt.Sprint(all[1].Workspace, " ", all[1].Host, " ", all[1].State))

	d, _, err = s.Domains.Approve(t.Context(), operator, d.ID)
	require.NoError(t, err)
	require.Equal(t, controlplane.DomainApproved, d.State)
	require.Empty(t, d.Proof)
	require.Equal(t, waypost.WorkspaceID(7), s.served(t, "go.corp.example"))
	s.daily(t)
	require.Zero(t, s.dns.Asked("_waypost.go.corp.example"))
	_, _, err = s.Domains.Verify(t.Context(), owner, d.ID)
	require.Equal(t, waypost.EInvalid, waypost.CodeOf(err))

	_, _, err = s.Links.Create(t.Context(), owner, wish(custom("first"), under("go.corp.example")))
	require.NoError(t, err)
	_, err = s.Domains.RemoveAnyDomain(t.Context(), owner, d.ID, true)
	require.Equal(t, waypost.EForbidden, waypost.CodeOf(err))
	_, err = s.Domains.RemoveAnyDomain(t.Context(), operator, d.ID, false)
	require.Equal(t, waypost.EConflict, waypost.CodeOf(err))
	_, err = s.Domains.RemoveAnyDomain(t.Context(), operator, d.ID, true)
	require.NoError(t, err)
	require.Zero(t, s.served(t, "go.corp.example"))
	require.Zero(t, s.count(t, `SELECT count(*) FROM domain_proof`))
	for _, ws := range []waypost.WorkspaceID{1, 7} {
		log, err := s.db.Audit(t.Context(), ws, 0, 1)
		require.NoError(t, err)
		require.Equal(t, "domains.remove go.corp.example", log[0].Action+" "+log[0].Subject, "in the log of workspace %d", ws)
	}
}

func TestDomains_HostsOfTheInstallationAreNotTaken(t *testing.T) {
	s := start(t)
	owner := s.owner(t, 7)
	_, _, err := s.Domains.AddDomain(t.Context(), operator, api.NewDomain{Host: "shared.example", Shared: true})
	require.NoError(t, err)
	for _, host := range []string{"go.example.com", "shared.example", "API.example.net."} {
		_, _, err = s.Domains.AddDomain(t.Context(), owner, api.NewDomain{Host: host})
		require.Equal(t, waypost.EConflict, waypost.CodeOf(err), host)
	}
	for _, host := range []string{"below.api.example.net", "example.net"} {
		_, _, err = s.Domains.AddDomain(t.Context(), owner, api.NewDomain{Host: host})
		require.NoError(t, err, "a certificate may be for names of many sites")
	}
	_, _, err = s.Links.Create(t.Context(), owner, controlplane.NewLink{OriginalURL: "https://api.example.net/docs"})
	require.NoError(t, err, "no link is behind a name of the API")
	_, _, err = s.Domains.AddDomain(t.Context(), operator, api.NewDomain{Host: "api.example.net"})
	require.NoError(t, err, "an operator knows why")
	long := strings.Repeat("a.", 121) + "example" // 249 bytes
	_, _, err = s.Domains.AddDomain(t.Context(), owner, api.NewDomain{Host: long})
	require.Equal(t, waypost.EInvalid, waypost.CodeOf(err), "no name for its record")
	_, _, err = s.Domains.AddDomain(t.Context(), operator, api.NewDomain{Host: long})
	require.NoError(t, err)
}

func TestDomains_OneWorkspaceVerifiesFewAtOnce(t *testing.T) {
	s := start(t)
	asked, answer := make(chan string), make(chan struct{})
	s.lookUp = func(ctx context.Context, name string) ([]string, error) {
		select {
		case asked <- name:
			<-answer
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	greedy, other := s.owner(t, 7), s.owner(t, 8)
	verify := func(by controlplane.Actor, host string) error {
		d, _, err := s.Domains.AddDomain(t.Context(), by, api.NewDomain{Host: host})
		require.NoError(t, err)
		_, _, err = s.Domains.Verify(t.Context(), by, d.ID)
		return err
	}
	var wg sync.WaitGroup
	for i := range 4 {
		wg.Go(func() { _ = verify(greedy, fmt.Sprintf("host-%d.example", i)) })
	}
	for range 4 {
		<-asked
	}
	err := verify(greedy, "host-4.example")
	require.Equal(t, waypost.EUnavailable, waypost.CodeOf(err))
	require.Contains(t, waypost.MessageOf(err), "too many domains")
	wg.Go(func() { _ = verify(other, "other.example") })
	require.Equal(t, "_waypost.other.example.", <-asked)
	close(answer)
	wg.Wait()
}

// Names whose servers do not answer take as long as DNS may.
func TestDomains_DailyCheckAsksForSeveralAtOnce(t *testing.T) {
	s := start(t)
	owner := s.owner(t, 7)
	const several = 8
	var all sync.WaitGroup
	all.Add(several)
	var answered atomic.Int64
	s.lookUp = func(ctx context.Context, _ string) ([]string, error) {
		met := make(chan struct{})
		go func() { all.Wait(); close(met) }()
		all.Done()
		select {
		case <-met:
			answered.Add(1)
			return nil, nil
		case <-ctx.Done():
			return nil, ctx.Err()
		}
	}
	for i := range several {
		_, _, err := s.Domains.AddDomain(t.Context(), owner, api.NewDomain{Host: fmt.Sprintf("host-%d.example", i)})
		require.NoError(t, err)
	}
	s.daily(t)
	require.EqualValues(t, several, answered.Load())
}
