package frontend

import (
	"context"
	"io"
	"net/http"
	"sync/atomic"

	"github.com/taredb/tare/fleet/activeseries"
)

// An exchange is a request being served, and the results so far.
type exchange struct {
	f        *Frontend
	request  request
	decoding Decoding
	compare  bool // decode bodies with both implementations
	cancel   context.CancelCauseFunc

	asked, retries   atomic.Int64 // downstream requests
	itemsIn, bytesIn atomic.Int64 // of bodies, decompressed
}

// A partBody is a body with its part.
type partBody struct {
	io.ReadCloser
	part *part
}

// plainBody returns the decompressed body of a response, and a function that closes it.
func (x *exchange) plainBody(resp *http.Response) (io.ReadCloser, func()) {
	b := x.decompressed(resp)
	return b, func() { b.Close() }
}

// decompressed returns the decompressed body of a response. An invalid encoding or body is an error of its
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

// A decompressedBody starts to decompress with its first Read, so only the bodies being read have a
// decompressor.
type decompressedBody struct {
	raw      io.ReadCloser
	encoding Encoding
	from     *compressors
	err      error // error of an unknown encoding or an invalid header

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

// Close returns the decompressor to its pool and closes the body.
func (b *decompressedBody) Close() error {
	if b.z != nil {
		b.release()
		b.z = nil
	}
	b.err = activeseries.ErrClosed
	return b.raw.Close()
}
