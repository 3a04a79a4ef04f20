package certs

import (
	"crypto/x509"
	"fmt"
)

// ReadRoots reads the root certificates, in PEM, that verify the certificates of clients
// or servers.
func ReadRoots(file string) (*x509.CertPool, error) {
	text, err := readFile(file)
	if err != nil {
		return nil, err
	}
	pool := x509.NewCertPool()
	if !pool.AppendCertsFromPEM(text) {
		return nil, fmt.Errorf("%s: it holds no certificate in PEM", file)
	}
	return pool, nil
}
