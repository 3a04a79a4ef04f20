//go:build linux

package main

import (
	"context"
	"encoding/binary"
	"errors"
	"fmt"
	"io"
	"net"
	"net/http"
	"sync"
	"time"

	"github.com/klauspost/compress/zstd"
)

// sink takes batches of clicks in the control plane's place and acknowledges all of
// them. It runs in the measuring process.
type sink struct {
	url    string
	server *http.Server
	served chan error
}

func newSink() (*sink, error) {
	ln, err := net.Listen("tcp4", "127.0.0.1:0")
	if err != nil {
		return nil, fmt.Errorf("listen for clicks: %w", err)
	}
	s := &sink{url: "http://" + ln.Addr().String(), served: make(chan error, 1)}
	s.server = &http.Server{Handler: http.HandlerFunc(acknowledge), ReadHeaderTimeout: 5 * time.Second}
	go func() { s.served <- s.server.Serve(ln) }()
	return s, nil
}

func (s *sink) close() error {
	err := s.server.Shutdown(context.Background())
	if served := <-s.served; !errors.Is(served, http.ErrServerClosed) {
		err = errors.Join(err, served)
	}
	return err
}

// decoders are used again: the client shares the processor.
var decoders = sync.Pool{New: func() any {
	z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderLowmem(true))
	if err != nil {
		panic("redirect: " + err.Error()) // the options are wrong
	}
	return z
}}

// acknowledge answers that a batch was counted. It decodes only the number of the batch,
// because the cost of counting is not measured here.
func acknowledge(w http.ResponseWriter, r *http.Request) {
	const head, seqAt = 28, 20 // see clickbatch.Append
	var number [head]byte
	z := decoders.Get().(*zstd.Decoder)
	defer decoders.Put(z)
	err := z.Reset(r.Body)
	if err == nil {
		_, err = io.ReadFull(z, number[:])
	}
	if err == nil {
		_, err = io.Copy(io.Discard, r.Body)
	}
	if err != nil {
		http.Error(w, "no batch", http.StatusBadRequest)
		return
	}
	fmt.Fprintf(w, `{"watermark":%d}`, binary.LittleEndian.Uint64(number[seqAt:]))
}
