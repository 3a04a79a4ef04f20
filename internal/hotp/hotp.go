// Package hotp makes one-time codes of six digits with HMAC-SHA-1 (RFC 4226), as
// authenticator apps do for a step of time (RFC 6238).
package hotp

import (
	"crypto/hmac"
	"crypto/sha1" //nolint:gosec // authenticator apps know no other hash
	"encoding/base32"
	"encoding/binary"
	"fmt"
	"net/url"
	"strings"
)

var encoding = base32.StdEncoding.WithPadding(base32.NoPadding)

// Secret encodes the bytes of a secret as apps show it.
func Secret(random []byte) string { return encoding.EncodeToString(random) }

// Code returns the code of a secret, as Secret returns it, for a counter or a step.
func Code(secret string, counter uint64) (string, error) {
	key, err := encoding.DecodeString(strings.ToUpper(secret))
	if err != nil {
		return "", fmt.Errorf("decode the secret of a second factor: %w", err)
	}
	mac := hmac.New(sha1.New, key)
	_, _ = mac.Write(binary.BigEndian.AppendUint64(nil, counter)) // a hash takes everything
	sum := mac.Sum(nil)
	at := sum[len(sum)-1] & 15
	return fmt.Sprintf("%06d", binary.BigEndian.Uint32(sum[at:])&0x7fffffff%1_000_000), nil
}

// URL returns the URL that apps read from a QR code.
func URL(issuer, account, secret string) string {
	query := url.Values{"secret": {secret}, "issuer": {issuer}, "algorithm": {"SHA1"}, "digits": {"6"}, "period": {"30"}}
	// Some apps show a plus for a space of a query.
	return "otpauth://totp/" + url.PathEscape(issuer) + ":" + url.PathEscape(account) + "?" + strings.ReplaceAll(query.Encode(), "+", "%20")
}
