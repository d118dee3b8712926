package frontend

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/taredb/tare/activeseries"
)

// An exchange is one request on its way: what is asked for, and what came of it so far.
type exchange struct {
	f        *Frontend
	request  request
	decoding Decoding
	compare  bool // bodies are decoded by both implementations
	cancel   context.CancelCauseFunc

	asked, retries   atomic.Int64 // requests downstream
	itemsIn, bytesIn atomic.Int64 // of bodies, decompressed
}

// A partBody is a body that knows which part it is.
type partBody struct {
	io.ReadCloser
	part *part
}

// plainBody is the body of a response, decompressed, and what closes it.
func (x *exchange) plainBody(resp *http.Response) (io.ReadCloser, func()) {
	b := x.decompressed(resp)
	return b, func() { b.Close() }
}

// decompressed is the body of a response, decompressed. What cannot be decompressed is an error of its
// first Read.
func (x *exchange) decompressed(resp *http.Response) io.ReadCloser {
	header := resp.Header.Get("Content-Encoding")
	if header == "" {
		return resp.Body
	}
	e, err := encodingOf(header)
	if e == Identity && err == nil {
		return resp.Body
	}
	return &decompressedBody{raw: resp.Body, encoding: e, from: &x.f.compressors, err: err}
}

// A decompressedBody decompresses from its first Read on: of a request's bodies only those have a
// decompressor that are being read.
type decompressedBody struct {
	raw      io.ReadCloser
	encoding Encoding
	from     *compressors
	err      error // of what cannot be decompressed

	z       io.Reader
	release func()
}

func (b *decompressedBody) Read(p []byte) (int, error) {
	if b.err != nil {
		return 0, b.err
	}
	if b.z == nil {
		if b.z, b.release, b.err = b.from.reader(b.encoding, b.raw); b.err != nil {
			b.z = nil
			return 0, b.err
		}
	}
	return b.z.Read(p)
}

// Close gives the decompressor back and closes the body.
func (b *decompressedBody) Close() error {
	if b.z != nil {
		b.release()
		b.z = nil
	}
	b.err = activeseries.ErrClosed
	return b.raw.Close()
}
