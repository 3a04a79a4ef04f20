package replication

import (
	"context"
	"encoding/hex"
	"errors"
	"fmt"
	"io"
	"log/slog"
	"net/http"
	"net/url"
	"strconv"
	"time"

	"waypost"
)

// RecordSource answers for one link at a time.
type RecordSource interface {
	// RecordAt gives a link's record, encoded, and the head at which it was so; no
	// record when there is none.
	RecordAt(ctx context.Context, domain waypost.DomainID, code []byte) ([]byte, Head, error)
}

// RecordType is the content type of an answer that is a record.
const RecordType = "application/vnd.waypost.record"

// Limits of the questions.
const (
	maxQuestions    = 16 // answered at once; more are turned away
	questionTimeout = time.Second
)

// answer is what is said of a link, and signed.
type answer struct {
	cluster Cluster
	at      waypost.Position
	domain  waypost.DomainID
	code    []byte
	record  []byte // nil: there is none
}

// RecordHandler answers questions for one record, GET /replication/v1/record with
// domain and code: 200 and the record, or 404 when there is none, both with the
// position at which that was so and the cluster, signed by signer; nil: not signed.
// It does not ask who asks.
func RecordHandler(source RecordSource, signer *Signer, log *slog.Logger) http.HandlerFunc {
	slots := make(chan struct{}, maxQuestions)
	return func(w http.ResponseWriter, r *http.Request) {
		q := r.URL.Query()
		domain, err := strconv.ParseUint(q.Get("domain"), 10, 32)
		code := []byte(q.Get("code"))
		if r.Method != http.MethodGet || err != nil || !waypost.ValidCode(code) {
			http.Error(w, "ask with GET, domain=NUMBER and code=CODE", http.StatusBadRequest)
			return
		}
		select {
		case slots <- struct{}{}:
			defer func() { <-slots }()
		default:
			http.Error(w, "too many questions at once", http.StatusServiceUnavailable)
			return
		}
		ctx, cancel := context.WithTimeout(r.Context(), questionTimeout)
		defer cancel()
		record, head, err := source.RecordAt(ctx, waypost.DomainID(domain), code)
		if err != nil {
			if r.Context().Err() == nil {
				log.Warn("a question for a record is not answered", "error", err)
			}
			http.Error(w, "the record cannot be read", http.StatusServiceUnavailable)
			return
		}
		h := w.Header()
		h.Set(HeaderPosition, head.Position.String())
		h.Set(HeaderCluster, hex.EncodeToString(head.Cluster[:]))
		if signer != nil {
			signature := signer.signAnswer(&answer{head.Cluster, head.Position, waypost.DomainID(domain), code, record})
			h.Set(HeaderSignature, signature.text())
		}
		h.Set("Cache-Control", "no-store")
		h.Set("Content-Type", RecordType)
		if record == nil {
			w.WriteHeader(http.StatusNotFound)
			return
		}
		_, _ = w.Write(record) // who asked may have gone
	}
}

// Asker asks a source for single records.
type Asker struct {
	URL    string // of the source, without a path
	Token  string
	Client *http.Client

	// Trust is the key that this node has pinned. Once there is one, an answer that it has
	// not signed is refused. Nil, or before: all are taken.
	Trust *Trust
}

// Ask gives what a [RecordSource] at the other end does. ctx bounds the time.
func (a *Asker) Ask(ctx context.Context, domain waypost.DomainID, code []byte) (record []byte, head Head, err error) {
	defer func() {
		if err != nil {
			err = fmt.Errorf("ask for a record: %w", err)
		}
	}()
	query := url.Values{"domain": {strconv.FormatUint(uint64(domain), 10)}, "code": {string(code)}}
	res, err := a.get(ctx, PathRecord+"?"+query.Encode())
	if err != nil {
		return nil, head, err
	}
	body, err := io.ReadAll(io.LimitReader(res.Body, MaxRecord+1))
	if err = errors.Join(err, res.Body.Close()); err != nil {
		return nil, head, err
	}
	// A proxy's own answer has none of this.
	if res.Header.Get("Content-Type") != RecordType || res.StatusCode != http.StatusOK && res.StatusCode != http.StatusNotFound {
		return nil, head, fmt.Errorf("the source answered %d", res.StatusCode)
	}
	if head.Position, err = waypost.ParsePosition(res.Header.Get(HeaderPosition)); err != nil {
		return nil, head, err
	}
	cluster, err := hex.DecodeString(res.Header.Get(HeaderCluster))
	if err != nil || len(cluster) != len(head.Cluster) {
		return nil, head, errors.New("the source does not name its cluster")
	}
	head.Cluster = Cluster(cluster)
	said := answer{head.Cluster, head.Position, domain, code, body}
	if res.StatusCode == http.StatusNotFound {
		said.record = nil
	}
	if err := a.Trust.checkAnswer(&said, res.Header.Get(HeaderSignature)); err != nil {
		return nil, head, err
	}
	if said.record == nil {
		return nil, head, nil
	}
	var r waypost.Record
	if err := DecodeRecord(body, &r); err != nil {
		return nil, head, err
	}
	if r.Kind != waypost.KindLink || r.Domain != domain || string(r.Name) != string(code) {
		return nil, head, errors.New("the source answered with another record")
	}
	return body, head, nil
}
