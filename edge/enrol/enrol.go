// Package enrol exchanges a token for an edge's own credential, and keeps that in the
// edge's directory. The edge makes the secret; the control plane gets its hash.
//
// The secret is on disk before the token is sent, and the token is good for the same
// secret again and again: whatever is lost on the way, a process or an answer, the next
// try ends with the credential that the first one has got.
package enrol

import (
	"context"
	"crypto/sha256"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"net/http"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"

	"waypost"
	"waypost/api"
	"waypost/api/edgepost"
	"waypost/controlplane/fleet"
	"waypost/internal/atomicfile"
	"waypost/replication"
)

// The files, for their owner alone.
const (
	keptName    = "credential"
	pendingName = "credential.new" // that the control plane may know by now
	maxFile     = 16 << 10
)

// Credential authenticates an edge.
type Credential struct {
	Node   string         `json:"node"`
	Region waypost.Region `json:"region"`
	Role   string         `json:"role"`
	Secret string         `json:"secret"`
	Token  string         `json:"token_sha256"` // of the token that it was got with, in hex
}

// GotWith reports whether the credential was got with a token.
func (c *Credential) GotWith(token string) bool { return c != nil && c.Token == hashOf(token) }

func hashOf(text string) string {
	hash := sha256.Sum256([]byte(text))
	return hex.EncodeToString(hash[:])
}

// Read returns the credential in a directory, nil if the directory has no credential.
func Read(dir string) (*Credential, error) { return read(filepath.Join(dir, keptName)) }

func read(path string) (*Credential, error) {
	text, err := atomicfile.Read(path, maxFile)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil //nolint:nilnil // there need not be one
	}
	if err != nil {
		return nil, err
	}
	var c Credential
	if err := json.Unmarshal(text, &c); err != nil || !fleet.ValidNodeCredential(c.Secret) || !waypost.ValidNode(c.Node) {
		return nil, fmt.Errorf("%s holds no credential: make a token with `waypost edges enrol --node NAME`, and start with that token", path)
	}
	return &c, nil
}

func write(path string, c *Credential) error {
	text, err := json.Marshal(c)
	if err != nil {
		return err
	}
	return atomicfile.Write(path, append(text, '\n'), 0o600)
}

// Config says who enrols where.
type Config struct {
	Dir     string // of the edge, which exists and is this process's alone
	URL     string // of the control plane
	Token   string
	Node    string
	Region  waypost.Region
	Present *Credential  // that the edge has; nil: none
	Former  []string     // names under which the edge has clicks that are not counted
	Client  *http.Client // which sends no credential
}

// RefusedError is an answer that another try does not change.
type RefusedError struct {
	Status int
	Detail string
}

func (e *RefusedError) Error() string { return fmt.Sprintf("%s (HTTP %d)", e.Detail, e.Status) }

// Enrol gets the credential that a token is good for. It is durable when it returns.
// After any other error than a [RefusedError] it is worth another try.
func Enrol(ctx context.Context, cfg Config) (*Credential, error) {
	c, err := cfg.pending()
	if err != nil {
		return nil, fmt.Errorf("enrol: %w", err)
	}
	role, err := cfg.exchange(ctx, c)
	if refused, ok := errors.AsType[*RefusedError](err); ok {
		return nil, refused
	}
	if err != nil {
		return nil, fmt.Errorf("enrol: %w", err)
	}
	c.Role = role
	if err := write(filepath.Join(cfg.Dir, keptName), c); err != nil {
		return nil, fmt.Errorf("enrol: %w", err)
	}
	// A pending file that cannot be removed does no harm, because its token was used.
	_ = os.Remove(filepath.Join(cfg.Dir, pendingName))
	return c, nil
}

// pending returns the secret for the token: the secret of an earlier try, or a new one,
// once it is on disk.
func (cfg *Config) pending() (*Credential, error) {
	path := filepath.Join(cfg.Dir, pendingName)
	c, err := read(path)
	if err == nil && c.GotWith(cfg.Token) && c.Node == cfg.Node && c.Region == cfg.Region {
		return c, nil
	}
	c = &Credential{Node: cfg.Node, Region: cfg.Region, Secret: fleet.NewNodeCredential(), Token: hashOf(cfg.Token)}
	return c, write(path, c)
}

// former returns the names to bring along: as many as may be, for one more would strand
// the edge.
func (cfg *Config) former() []string {
	names := slices.DeleteFunc(slices.Clone(cfg.Former), func(name string) bool { return name == cfg.Node })
	return names[:min(len(names), fleet.MaxFormer)]
}

// exchange sends the token and the secret's hash, and returns the node's role.
func (cfg *Config) exchange(ctx context.Context, c *Credential) (role string, err error) {
	body := api.Enrol{Token: cfg.Token, Hash: hashOf(c.Secret), Node: c.Node, Region: string(c.Region), Former: cfg.former()}
	if cfg.Present != nil {
		body.Previous = cfg.Present.Secret
	}
	res, err := edgepost.Send(ctx, cfg.Client, cfg.URL, replication.PathEnrol, body, maxFile, false)
	if err != nil {
		return "", err
	}
	if res.StatusCode == http.StatusOK {
		var answer api.Enrolled
		if err := json.Unmarshal(res.Body, &answer); err != nil || answer.Node != c.Node {
			return "", errors.New("the answer is not that of a control plane: is the URL right?")
		}
		return answer.Role, nil
	}
	var problem api.Problem
	if err := json.Unmarshal(res.Body, &problem); err != nil || problem.Detail == "" {
		problem.Detail = "no control plane that enrols edges: is the URL right, and its version not older?"
	}
	detail := strings.Trim(strconv.Quote(problem.Detail), `"`)
	if res.StatusCode/100 == 4 && res.StatusCode != http.StatusTooManyRequests && res.StatusCode != http.StatusRequestTimeout {
		return "", &RefusedError{res.StatusCode, detail}
	}
	return "", fmt.Errorf("the control plane answered %d: %s", res.StatusCode, detail)
}
