package replication

import (
	"context"
	"encoding/hex"
	"encoding/json"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"strings"

	"waypost/keyrange"
)

// prefixKeys is the body of an answer to GET [PathPrefixKeys]: the shape of codes, as in [HeaderKeySpace], and the keys of
// prefixes by their ordinals, in hex.
type prefixKeys struct {
	KeySpace string         `json:"key_space"`
	Keys     map[int]string `json:"keys"`
}

// maxPrefixKeys bounds how many keys are given and taken: all prefixes of two characters. With
// more the counters of codes cannot be told.
const (
	maxPrefixKeys     = 62 * 62
	maxPrefixKeysBody = 1 << 20
)

// PrefixKeysHandler gives the keys of the prefixes that ranges have, GET /replication/v1/prefix-keys. It does not
// ask who asks.
func PrefixKeysHandler(coder *keyrange.Coder, prefixes func(context.Context) ([]int, error), log *slog.Logger) http.HandlerFunc {
	return func(w http.ResponseWriter, r *http.Request) {
		if r.Method != http.MethodGet {
			http.Error(w, "ask with GET", http.StatusMethodNotAllowed)
			return
		}
		ordinals, err := prefixes(r.Context())
		if err != nil || len(ordinals) > maxPrefixKeys {
			if err != nil && r.Context().Err() == nil {
				log.Warn("the prefixes of key ranges cannot be read", "error", err)
			}
			http.Error(w, "the keys of prefixes are not to be had", http.StatusServiceUnavailable)
			return
		}
		body := prefixKeys{KeySpace: keySpaceHeader(coder.Space()), Keys: make(map[int]string, len(ordinals))}
		for _, p := range ordinals {
			k := coder.Key(p)
			body.Keys[p] = hex.EncodeToString(k[:])
		}
		w.Header().Set("Cache-Control", "no-store")
		w.Header().Set("Content-Type", "application/json")
		_ = json.NewEncoder(w).Encode(body) // who asked may have gone
	}
}

// PrefixKeys gives what tells the counters of codes, as far as the source's ranges have their prefixes. ctx bounds the time.
func (a *Asker) PrefixKeys(ctx context.Context) (_ *keyrange.Decoder, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("ask for the keys of prefixes: %w", err)
		}
	}()
	res, err := a.get(ctx, PathPrefixKeys)
	if err != nil {
		return nil, err
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, maxPrefixKeysBody))
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return nil, err
	}
	if res.StatusCode != http.StatusOK {
		return nil, fmt.Errorf("the source answered %d", res.StatusCode)
	}
	return decodePrefixKeys(body)
}

func decodePrefixKeys(body []byte) (*keyrange.Decoder, error) {
	var got prefixKeys
	if err := json.Unmarshal(body, &got); err != nil {
		return nil, err
	}
	space, ok := parseKeySpace(got.KeySpace)
	if !ok {
		return nil, errors.New("the source does not name its key space")
	}
	if len(got.Keys) > maxPrefixKeys {
		return nil, fmt.Errorf("%d keys are too many", len(got.Keys))
	}
	keys := make(map[int]keyrange.Key, len(got.Keys))
	for prefix, text := range got.Keys {
		k, err := hex.DecodeString(text)
		if err != nil || len(k) != len(keyrange.Key{}) || prefix < 0 || prefix >= space.Prefixes() {
			return nil, fmt.Errorf("there is no such key of prefix %d", prefix)
		}
		keys[prefix] = keyrange.Key(k)
	}
	return keyrange.NewDecoder(space, keys), nil
}

// get asks the source for a path, with its query.
func (a *Asker) get(ctx context.Context, path string) (*http.Response, error) {
	req, err := http.NewRequestWithContext(ctx, http.MethodGet, strings.TrimRight(a.URL, "/")+path, http.NoBody)
	if err != nil {
		return nil, err
	}
	if a.Token != "" {
		req.Header.Set("Authorization", "Bearer "+a.Token)
	}
	return a.Client.Do(req)
}
