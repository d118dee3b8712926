package frontend

import (
	"cmp"
	"fmt"
	"io"
	"net/http"
	"strings"
	"sync"

	"github.com/klauspost/compress/gzip"
	"github.com/klauspost/compress/s2"
	"github.com/klauspost/compress/zstd"

	"github.com/taredb/tare/internal/accept"
)

// An Encoding is a compression of bodies, by its name in HTTP.
type Encoding string

// Encodings. Snappy is the framing format that every snappy decoder supports.
const (
	Identity Encoding = ""
	Snappy   Encoding = "x-snappy-framed"
	Gzip     Encoding = "gzip"
	Zstd     Encoding = "zstd"
)

// encodings are the offered encodings, the cheapest for the server first: of several that a client prefers
// equally, the first is chosen.
var encodings = [...]Encoding{Snappy, Zstd, Gzip, Identity}

// validate returns an error if e is unknown.
func (e Encoding) validate() error {
	for _, known := range encodings {
		if e == known {
			return nil
		}
	}
	return fmt.Errorf("content encoding %q is unknown: want %s, %s, %s or none", string(e), Snappy, Gzip, Zstd)
}

// blockSize is the block size of compressors, and zstdWindow the maximum window of zstd decompressors. Both
// bound the memory of a body.
const (
	blockSize  = 64 << 10
	zstdWindow = 8 << 20 // RFC 8878, section 3.1.1.1.2: the size that every decoder should support
)

// compressors keeps compressors and decompressors between bodies. sync.Pool frees them when there is no
// traffic; a zstd one takes about a megabyte.
type compressors struct {
	snappyWriters, gzipWriters, zstdWriters sync.Pool
	snappyReaders, gzipReaders, zstdReaders sync.Pool
}

// A resetWriter is a compressor. Close finishes the stream but does not close the underlying writer.
type resetWriter interface {
	io.WriteCloser
	Reset(w io.Writer)
}

// writer returns a compressor for e, or nil for Identity, and a function that returns it to its pool. The
// caller calls release once, whether the stream is complete or not.
func (c *compressors) writer(e Encoding, w io.Writer) (compressor resetWriter, release func()) {
	pooled := func(p *sync.Pool, make func() resetWriter) (resetWriter, func()) {
		z, _ := p.Get().(resetWriter)
		if z == nil {
			z = make()
		}
		z.Reset(w)
		return z, func() {
			z.Reset(io.Discard) // drops the reference to w
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

// reader returns a decompressor of e over r, and a function that returns it to its pool. It returns an error
// if the gzip header, which it reads immediately, is invalid.
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

// encodingOf returns the encoding that a Content-Encoding names.
func encodingOf(header string) (Encoding, error) {
	switch name := strings.ToLower(strings.TrimSpace(header)); name {
	case "", "identity":
		return Identity, nil
	case "x-gzip": // RFC 9110, section 8.4.1.3
		return Gzip, nil
	default:
		return Encoding(name), Encoding(name).validate()
	}
}

// chooseEncoding returns the encoding that a request prefers, by its Accept-Encoding. ok is false if it
// accepts none.
func chooseEncoding(h http.Header) (e Encoding, ok bool) {
	ranges := accept.Parse(h.Values("Accept-Encoding"))
	best := 0
	for _, candidate := range encodings {
		if q := accept.Encoding(ranges, cmp.Or(string(candidate), accept.Identity)); q > best {
			e, best = candidate, q
		}
	}
	return e, best > 0
}
