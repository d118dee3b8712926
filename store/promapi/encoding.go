package promapi

import (
	"io"
	"net/http"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/zstd"

	"github.com/taredb/tare/internal/accept"
)

// An encoding is a content coding (RFC 9110, section 8.4.1).
type encoding uint8

const (
	identity encoding = iota
	gzipped
	zstandard
)

// String returns the coding's name in HTTP.
func (e encoding) String() string {
	switch e {
	case gzipped:
		return "gzip"
	case zstandard:
		return "zstd"
	}
	return "identity"
}

// negotiate returns the coding that a client's Accept-Encoding prefers (RFC 9110, section 12.5.3). It prefers
// zstd between equals, which compresses more at a lower cost.
func negotiate(h http.Header) encoding {
	values := h.Values("Accept-Encoding")
	if len(values) == 0 {
		return identity
	}
	ranges := accept.Parse(values)
	best, most := identity, 0
	for _, e := range [...]encoding{zstandard, gzipped, identity} {
		if q := accept.Encoding(ranges, e.String()); q > most {
			best, most = e, q
		}
	}
	return best
}

// encoderPools keep compressors between responses. A response owns its compressor from the first piece to the
// last.
type encoderPools struct {
	gzip, zstd sync.Pool
}

// zstdWindow bounds the memory of a zstd encoder and of its reader.
const zstdWindow = 256 << 10

func (p *encoderPools) get(e encoding, w io.Writer) io.WriteCloser {
	if e == gzipped {
		if z, ok := p.gzip.Get().(*gzip.Writer); ok {
			z.Reset(w)
			return z
		}
		z, err := gzip.NewWriterLevel(w, gzip.BestSpeed)
		if err != nil {
			panic("BUG: gzip refuses its own level: " + err.Error())
		}
		return z
	}
	if z, ok := p.zstd.Get().(*zstd.Encoder); ok {
		z.Reset(w)
		return z
	}
	z, err := zstd.NewWriter(w, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(zstdWindow))
	if err != nil {
		panic("BUG: zstd refuses constant options: " + err.Error())
	}
	return z
}

func (p *encoderPools) put(w io.WriteCloser) {
	switch z := w.(type) {
	case *gzip.Writer:
		z.Reset(io.Discard)
		p.gzip.Put(z)
	case *zstd.Encoder:
		z.Reset(io.Discard)
		p.zstd.Put(z)
	}
}
