package dev

import (
	"context"
	"errors"
	"fmt"
	"log/slog"
	"net"
	"strings"

	"waypost"
	"waypost/internal/config"
	"waypost/internal/listener"
)

// edge is one edge of the plan.
type edge struct {
	Region waypost.Region
	Addr   string
}

// plan holds the checked settings.
type plan struct {
	control  string // address of the API
	fleet    string // address at which edges reach the control plane
	edges    []edge
	gossip   []string // addresses of the control plane and of each edge
	logLevel slog.Level
}

func makePlan(s config.Config) (plan, error) {
	p := plan{control: s.Dev.ControlAddr}
	if err := s.Log.Check(); err != nil {
		return plan{}, err
	}
	if err := p.logLevel.UnmarshalText([]byte(s.Log.Level)); err != nil {
		return plan{}, fmt.Errorf("log.level: %w", err)
	}
	if err := config.CheckAddress(p.control); err != nil {
		return plan{}, fmt.Errorf("--control-addr: %w", err)
	}
	edges, err := parseEdges(s.Dev.Edges)
	if err != nil {
		return plan{}, fmt.Errorf("--edges: %w", err)
	}
	for _, e := range edges {
		if clash(e.Addr, p.control) {
			return plan{}, fmt.Errorf("--edges: %s has the control plane's address %s", e.Region, e.Addr)
		}
	}
	p.edges = edges
	return p, nil
}

// parseEdges reads REGION=HOST:PORT, each region and address once.
func parseEdges(texts []string) ([]edge, error) {
	if len(texts) == 0 {
		return nil, errors.New("at least one edge is needed, such as us-east-1=127.0.0.1:8081")
	}
	var edges []edge
	for _, text := range texts {
		name, addr, ok := strings.Cut(text, "=")
		if !ok {
			return nil, fmt.Errorf("%q is not REGION=HOST:PORT", text)
		}
		region, err := waypost.ParseRegion(name)
		if err != nil {
			return nil, err
		}
		if err := config.CheckAddress(addr); err != nil {
			return nil, err
		}
		for _, other := range edges {
			if other.Region == region {
				return nil, fmt.Errorf("region %s is given twice", region)
			}
			if clash(other.Addr, addr) {
				return nil, fmt.Errorf("%s and %s have the same address %s", other.Region, region, addr)
			}
		}
		edges = append(edges, edge{region, addr})
	}
	return edges, nil
}

// clash reports whether two addresses are the same; port 0 never is.
func clash(a, b string) bool { return a == b && !strings.HasSuffix(a, ":0") }

// claimPorts makes sure that every address is free, before anything is started,
// and picks a port where 0 was given. The listeners are open all at once, so that
// no port is picked twice, and closed again for the children.
func (p *plan) claimPorts(ctx context.Context) (err error) {
	type claim struct {
		addr *string
		flag string
	}
	claims := []claim{{&p.control, "--control-addr"}}
	for i := range p.edges {
		claims = append(claims, claim{&p.edges[i].Addr, "--edges"})
	}
	p.fleet = "127.0.0.1:0"
	claims = append(claims, claim{&p.fleet, "--control-addr"})
	p.gossip = make([]string, 1+len(p.edges))
	for i := range p.gossip {
		p.gossip[i] = "127.0.0.1:0"
		claims = append(claims, claim{&p.gossip[i], "--edges"})
	}
	for _, c := range claims {
		ln, busy := listener.Claim(ctx, *c.addr, c.flag)
		if busy != nil {
			return busy
		}
		defer func() { err = errors.Join(err, ln.Close()) }()
		*c.addr = withPort(*c.addr, ln)
	}
	return nil
}

func (p *plan) apiURL() string   { return urlOf(p.control) }
func (p *plan) fleetURL() string { return urlOf(p.fleet) }

func (p *plan) edgeURLs() []string {
	urls := make([]string, len(p.edges))
	for i, e := range p.edges {
		urls[i] = urlOf(e.Addr)
	}
	return urls
}

func (p *plan) regions() []string {
	names := make([]string, len(p.edges))
	for i, e := range p.edges {
		names[i] = string(e.Region)
	}
	return names
}

// withPort replaces a picked port in the address that was asked for.
func withPort(addr string, ln net.Listener) string {
	host, _, err := net.SplitHostPort(addr)
	tcp, ok := ln.Addr().(*net.TCPAddr)
	if err != nil || !ok {
		return addr
	}
	return net.JoinHostPort(host, fmt.Sprint(tcp.Port))
}
