package frontend

import (
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"
)

// An Encoding compresses a body, by the name that HTTP has for it.
type Encoding string

// The encodings. Snappy is the framing format of snappy that every reader of it takes.
const (
	Identity Encoding = ""
	Snappy   Encoding = "x-snappy-framed"
	Gzip     Encoding = "gzip"
	Zstd     Encoding = "zstd"
)

// encodings are those that are offered, the cheapest for a server first: of several that a client
// likes equally, the first is taken.
var encodings = [...]Encoding{Snappy, Zstd, Gzip, Identity}

// Validate says whether e is known.
func (e Encoding) Validate() error {
	for _, known := range encodings {
		if e == known {
			return nil
		}
	}
	return fmt.Errorf("content encoding %q is unknown: want %s, %s, %s or none", string(e), Snappy, Gzip, Zstd)
}

// blockSize is what a compressor takes at once, and zstdWindow what a decompressor of zstd has to
// keep: both bound the memory of one body.
const (
	blockSize  = 64 << 10
	zstdWindow = 8 << 20 // RFC 8878, section 3.1.1.1.2: what every decoder should support
)

// compressors keeps compressors and decompressors between bodies. sync.Pool gives them back to the
// heap where there is no traffic; a zstd one is about a megabyte.
type compressors struct {
	snappyWriters, gzipWriters, zstdWriters sync.Pool
	snappyReaders, gzipReaders, zstdReaders sync.Pool
}

// A resetWriter compresses what is written. Close ends the stream, not the writer beneath.
type resetWriter interface {
	io.WriteCloser
	Reset(w io.Writer)
}

// writer returns a compressor for e, nil for Identity, and what gives it back once the stream
// has ended, however.
func (c *compressors) writer(e Encoding, w io.Writer) (compressor resetWriter, release func()) {
	pooled := func(p *sync.Pool, make func() resetWriter) (resetWriter, func()) {
		z, _ := p.Get().(resetWriter)
		if z == nil {
			z = make()
		}
		z.Reset(w)
		return z, func() {
			z.Reset(io.Discard) // lets go of w
			p.Put(z)
		}
	}
	switch e {
	case Identity:
		return nil, func() {}
	case Snappy:
		return pooled(&c.snappyWriters, func() resetWriter {
			return s2.NewWriter(nil, s2.WriterSnappyCompat(), s2.WriterConcurrency(1), s2.WriterBlockSize(blockSize))
		})
	case Gzip:
		return pooled(&c.gzipWriters, func() resetWriter {
			z, err := gzip.NewWriterLevel(nil, gzip.BestSpeed)
			if err != nil {
				panic("BUG: " + err.Error())
			}
			return z
		})
	case Zstd:
		return pooled(&c.zstdWriters, func() resetWriter {
			z, err := zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1),
				zstd.WithWindowSize(512<<10), zstd.WithLowerEncoderMem(true))
			if err != nil {
				panic("BUG: " + err.Error())
			}
			return z
		})
	}
	panic("BUG: compress with an unknown encoding")
}

// reader returns a decompressor of e over r and what gives it back. Gzip reads its header at
// once; the error is of that.
func (c *compressors) reader(e Encoding, r io.Reader) (io.Reader, func(), error) {
	switch e {
	case Identity:
		return r, func() {}, nil
	case Snappy:
		z, _ := c.snappyReaders.Get().(*s2.Reader)
		if z == nil {
			z = s2.NewReader(nil, s2.ReaderMaxBlockSize(4<<20), s2.ReaderAllocBlock(blockSize))
		}
		z.Reset(r)
		return z, func() { z.Reset(nil); c.snappyReaders.Put(z) }, nil
	case Gzip:
		z, _ := c.gzipReaders.Get().(*gzip.Reader)
		if z == nil {
			z = new(gzip.Reader)
		}
		release := func() { c.gzipReaders.Put(z) }
		if err := z.Reset(r); err != nil {
			release()
			if err == io.EOF { //nolint:errorlint // the reader's own, as io.Reader says
				err = io.ErrUnexpectedEOF
			}
			return nil, nil, fmt.Errorf("decompress gzip: %w", err)
		}
		return z, release, nil
	case Zstd:
		z, _ := c.zstdReaders.Get().(*zstd.Decoder)
		if z == nil {
			var err error
			z, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(zstdWindow), zstd.WithDecoderLowmem(true))
			if err != nil {
				panic("BUG: " + err.Error())
			}
		}
		if err := z.Reset(r); err != nil {
			return nil, nil, fmt.Errorf("decompress zstd: %w", err)
		}
		return z, func() { _ = z.Reset(nil); c.zstdReaders.Put(z) }, nil
	}
	panic("BUG: decompress an unknown encoding")
}

// encodingOf is the encoding that a Content-Encoding names.
func encodingOf(header string) (Encoding, error) {
	switch name := strings.ToLower(strings.TrimSpace(header)); name {
	case "", "identity":
		return Identity, nil
	case "x-gzip": // RFC 9110, section 8.4.1.3
		return Gzip, nil
	default:
		return Encoding(name), Encoding(name).Validate()
	}
}

// chooseEncoding is the encoding that a request wants most of those there are, by its
// Accept-Encoding; ok is false when it takes none of them.
func chooseEncoding(h http.Header) (e Encoding, ok bool) {
	ranges := parseAccept(h.Values("Accept-Encoding"))
	best := 0
	for _, candidate := range encodings {
		if q := encodingWeight(ranges, candidate); q > best {
			e, best = candidate, q
		}
	}
	return e, best > 0
}

// encodingWeight is how much a request wants e, in thousandths (RFC 9110, section 12.5.3).
func encodingWeight(ranges []acceptRange, e Encoding) int {
	name := string(e)
	if e == Identity {
		name = "identity"
	}
	rest := -1
	for _, r := range ranges {
		switch {
		case r.name == name, e == Gzip && r.name == "x-gzip":
			return r.q
		case r.name == "*":
			rest = r.q
		}
	}
	switch {
	case e == Identity && rest != 0:
		return 1 // always acceptable unless it is refused; what was named comes first
	case rest > 0:
		return rest
	}
	return 0
}
