// Package dnstest runs a DNS server for tests.
package dnstest

import (
	"net"
	"net/netip"
	"strings"
	"sync"
	"testing"
	"time"

	"github.com/miekg/dns"

	"waypost/internal/resolver"
)

// Any stands for all names without addresses of their own.
const Any = "*"

// Server answers for all names, over UDP and TCP, from records that tests set. Its
// methods may be called by many goroutines at once. Names have no final dot.
type Server struct {
	// Addr is its address, HOST:PORT.
	Addr string

	mu      sync.Mutex
	texts   map[string][]string
	hosts   map[string][]netip.Addr
	aliases map[string]string
	failing bool
	asked   map[string]int
}

// Start starts a server without records on a loopback address, until the test ends.
func Start(t testing.TB) *Server {
	t.Helper()
	s := &Server{texts: map[string][]string{}, hosts: map[string][]netip.Addr{}, aliases: map[string]string{}, asked: map[string]int{}}
	packets, stream := listen(t)
	s.Addr = packets.LocalAddr().String()
	for _, server := range []*dns.Server{{PacketConn: packets, Handler: s}, {Listener: stream, Handler: s}} {
		started, ended := make(chan struct{}), make(chan error, 1)
		server.NotifyStartedFunc = func() { close(started) }
		go func() { ended <- server.ActivateAndServe() }()
		select {
		case <-started:
		case err := <-ended:
			t.Fatalf("the DNS server ended: %v", err)
		case <-time.After(10 * time.Second):
			t.Fatal("the DNS server did not start")
		}
		t.Cleanup(func() {
			if err := server.Shutdown(); err != nil {
				t.Errorf("stop the DNS server: %v", err)
			}
			if err := <-ended; err != nil {
				t.Errorf("the DNS server: %v", err)
			}
		})
	}
	return s
}

// listen takes the same free port for both transports.
func listen(t testing.TB) (net.PacketConn, net.Listener) {
	t.Helper()
	for range 10 {
		packets, err := net.ListenPacket("udp", "127.0.0.1:0")
		if err != nil {
			t.Fatal(err)
		}
		stream, err := net.Listen("tcp", packets.LocalAddr().String())
		if err == nil {
			return packets, stream
		}
		_ = packets.Close()
	}
	t.Fatal("no port is free for both UDP and TCP")
	return nil, nil
}

// SetTexts replaces the TXT records of a name. Without any, the name does not exist.
func (s *Server) SetTexts(name string, texts ...string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.texts[strings.ToLower(name)] = texts
}

// SetAddresses replaces the addresses of a name.
func (s *Server) SetAddresses(name string, addresses ...netip.Addr) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.hosts[strings.ToLower(name)] = addresses
}

// SetAlias adds a CNAME record to a name.
func (s *Server) SetAlias(name, target string) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.aliases[strings.ToLower(name)] = strings.ToLower(target)
}

// Fail makes the server answer SERVFAIL to everything, or no longer.
func (s *Server) Fail(failing bool) {
	s.mu.Lock()
	defer s.mu.Unlock()
	s.failing = failing
}

// Asked returns how often the records of a name were asked for.
func (s *Server) Asked(name string) int {
	s.mu.Lock()
	defer s.mu.Unlock()
	return s.asked[strings.ToLower(name)]
}

// Resolver returns a resolver that asks the server.
func (s *Server) Resolver() resolver.Resolver { return resolver.New([]string{s.Addr}) }

// ServeDNS implements dns.Handler.
func (s *Server) ServeDNS(w dns.ResponseWriter, query *dns.Msg) {
	s.mu.Lock()
	answer := s.answer(query)
	s.mu.Unlock()
	_ = w.WriteMsg(answer) // a client that has gone needs no answer
}

func (s *Server) answer(query *dns.Msg) *dns.Msg {
	m := new(dns.Msg).SetReply(query)
	m.Authoritative, m.RecursionAvailable = true, true
	if s.failing || len(query.Question) != 1 {
		return new(dns.Msg).SetRcode(query, dns.RcodeServerFailure)
	}
	q := query.Question[0]
	name := strings.ToLower(strings.TrimSuffix(q.Name, "."))
	s.asked[name]++
	for target := s.aliases[name]; target != "" && len(m.Answer) < 10; target = s.aliases[name] {
		m.Answer = append(m.Answer, &dns.CNAME{Hdr: head(name, dns.TypeCNAME), Target: dns.Fqdn(target)})
		name = target
	}
	for _, text := range s.texts[name] {
		if q.Qtype == dns.TypeTXT {
			m.Answer = append(m.Answer, &dns.TXT{Hdr: head(name, dns.TypeTXT), Txt: []string{text}})
		}
	}
	addresses, own := s.hosts[name]
	if !own {
		addresses = s.hosts[Any]
	}
	for _, a := range addresses {
		switch {
		case q.Qtype == dns.TypeA && a.Is4():
			m.Answer = append(m.Answer, &dns.A{Hdr: head(name, dns.TypeA), A: a.AsSlice()})
		case q.Qtype == dns.TypeAAAA && a.Is6():
			m.Answer = append(m.Answer, &dns.AAAA{Hdr: head(name, dns.TypeAAAA), AAAA: a.AsSlice()})
		}
	}
	if len(s.texts[name]) == 0 && len(addresses) == 0 {
		m.Rcode = dns.RcodeNameError
	}
	return m
}

func head(name string, kind uint16) dns.RR_Header {
	return dns.RR_Header{Name: dns.Fqdn(name), Rrtype: kind, Class: dns.ClassINET}
}
