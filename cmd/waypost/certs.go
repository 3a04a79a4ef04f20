package main

import (
	"crypto/ecdsa"
	"crypto/elliptic"
	"crypto/rand"
	"crypto/tls"
	"crypto/x509"
	"crypto/x509/pkix"
	"encoding/pem"
	"errors"
	"fmt"
	"io/fs"
	"net"
	"net/url"
	"os"
	"path/filepath"
	"regexp"
	"time"

	"github.com/spf13/cobra"
)

// Lifetimes of certificates, and the name of the authority's files.
const (
	authorityLife = 10 * 365 * 24 * time.Hour
	nodeLife      = 825 * 24 * time.Hour
	clockSkew     = time.Hour // by which a node's clock may be behind

	authorityName = "authority"
)

// certsCommands makes the commands for an authority of the nodes' own.
type certsCommands struct{ *program }

func (p certsCommands) command() *cobra.Command {
	return group("certs", "Make an authority and certificates for TLS between nodes", p.authorityCommand(), p.nodeCommand())
}

func (p certsCommands) authorityCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "authority DIR",
		Short: "Make an authority that signs certificates of nodes",
		Long: `Make an authority in a directory: authority.pem, which all nodes get, and authority-key.pem, which
never leaves the directory. The authority is good for ten years. Files that are there are never
overwritten. Keep the directory on a machine that is no node.`,
		Example: `  waypost certs authority /root/waypost-authority`,
		RunE: func(_ *cobra.Command, args []string) error {
			if err := os.MkdirAll(args[0], 0o700); err != nil {
				return err
			}
			now := time.Now()
			made, err := writePair(args[0], authorityName, &x509.Certificate{
				Subject: pkix.Name{CommonName: "Waypost nodes"}, NotBefore: now.Add(-clockSkew), NotAfter: now.Add(authorityLife),
				IsCA: true, BasicConstraintsValid: true, MaxPathLenZero: true, KeyUsage: x509.KeyUsageCertSign | x509.KeyUsageCRLSign,
			}, nil)
			if err != nil {
				return err
			}
			return p.print(made.text(), made)
		},
	}
}

func (p certsCommands) nodeCommand() *cobra.Command {
	return &cobra.Command{
		Use:   "node DIR NAME [HOST...]",
		Short: "Make a certificate of a node, signed by the authority in a directory",
		Long: `Make the key and the certificate of a node in the directory of an authority: NAME.pem and
NAME-key.pem, for two years and a quarter. The certificate names the node (control.node,
edge.node), and is good for clients; with hosts, names or IP addresses at which others reach the
node, it is good for servers as well. Files that are there are never overwritten: to renew a
certificate, move the two files away first.`,
		Example: `  waypost certs node /root/waypost-authority control-1 10.0.0.1 control.example.com
  waypost certs node /root/waypost-authority edge-eu-1`,
		RunE: func(_ *cobra.Command, args []string) error {
			dir, name := args[0], args[1]
			if !nodeNames.MatchString(name) || name == authorityName {
				return &usageError{fmt.Errorf("%q is no name of a node: 1 to 64 of A-Z, a-z, 0-9, dot, _ and -", name)}
			}
			by, err := tls.LoadX509KeyPair(filepath.Join(dir, authorityName+".pem"), filepath.Join(dir, authorityName+"-key.pem"))
			if errors.Is(err, fs.ErrNotExist) {
				return fmt.Errorf("%w: make the authority with `waypost certs authority %s`", err, dir)
			} else if err != nil {
				return fmt.Errorf("the authority in %s: %w", dir, err)
			}
			now := time.Now()
			cert := &x509.Certificate{
				Subject: pkix.Name{CommonName: name}, NotBefore: now.Add(-clockSkew), NotAfter: now.Add(nodeLife),
				URIs:     []*url.URL{{Scheme: "waypost", Host: "node", Path: "/" + name}},
				KeyUsage: x509.KeyUsageDigitalSignature, ExtKeyUsage: []x509.ExtKeyUsage{x509.ExtKeyUsageClientAuth},
			}
			for _, host := range args[2:] {
				if ip := net.ParseIP(host); ip != nil {
					cert.IPAddresses = append(cert.IPAddresses, ip)
				} else if u, err := url.Parse("//" + host); err == nil && u.Host == host && u.Port() == "" {
					cert.DNSNames = append(cert.DNSNames, host)
				} else {
					return &usageError{fmt.Errorf("%q is neither a name nor an address of a host", host)}
				}
			}
			if len(args) > 2 {
				cert.ExtKeyUsage = append(cert.ExtKeyUsage, x509.ExtKeyUsageServerAuth)
			}
			made, err := writePair(dir, name, cert, &by)
			if err != nil {
				return err
			}
			return p.print(made.text(), made)
		},
	}
}

// nodeNames matches the names that settings and enrolments accept, except file names that
// are hidden.
var nodeNames = regexp.MustCompile(`^[A-Za-z0-9_-][A-Za-z0-9._-]{0,63}$`)

// madePair are the files of a new certificate.
type madePair struct {
	Certificate string    `json:"certificate"`
	Key         string    `json:"key"`
	ExpiresAt   time.Time `json:"expires_at"`
}

func (m *madePair) text() string {
	return fmt.Sprintf("certificate: %s (until %s)\nkey:         %s", m.Certificate, m.ExpiresAt.Format(time.DateOnly), m.Key)
}

// writePair makes a key and its certificate, and writes both. An authority signs the
// certificate; nil: the new key does. Files that are there stay.
func writePair(dir, name string, cert *x509.Certificate, by *tls.Certificate) (*madePair, error) {
	key, err := ecdsa.GenerateKey(elliptic.P256(), rand.Reader)
	if err != nil {
		return nil, err
	}
	parent, signer := cert, any(key)
	if by != nil {
		parent, signer = by.Leaf, by.PrivateKey
		if !parent.IsCA || parent.NotAfter.Before(time.Now()) {
			return nil, errors.New("the authority is none, or has expired")
		}
		if cert.NotAfter.After(parent.NotAfter) {
			cert.NotAfter = parent.NotAfter
		}
	}
	der, err := x509.CreateCertificate(rand.Reader, cert, parent, key.Public(), signer)
	if err != nil {
		return nil, err
	}
	secret, err := x509.MarshalPKCS8PrivateKey(key)
	if err != nil {
		return nil, err
	}
	m := &madePair{Certificate: filepath.Join(dir, name+".pem"), Key: filepath.Join(dir, name+"-key.pem"), ExpiresAt: cert.NotAfter.UTC()}
	if err := writeNew(m.Key, "PRIVATE KEY", secret); err != nil {
		return nil, err
	}
	if err := writeNew(m.Certificate, "CERTIFICATE", der); err != nil {
		return nil, errors.Join(err, os.Remove(m.Key))
	}
	return m, nil
}

// writeNew writes a PEM file that is not there yet, for its owner alone.
func writeNew(path, kind string, der []byte) error {
	f, err := os.OpenFile(path, os.O_WRONLY|os.O_CREATE|os.O_EXCL, 0o600)
	if errors.Is(err, fs.ErrExist) {
		return fmt.Errorf("%s is there already, and is not overwritten: move it away first", path)
	} else if err != nil {
		return err
	}
	if err := errors.Join(pem.Encode(f, &pem.Block{Type: kind, Bytes: der}), f.Sync(), f.Close()); err != nil {
		return errors.Join(err, os.Remove(path))
	}
	return nil
}
