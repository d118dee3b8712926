package storeapi

import (
	"io"
	"sync"

	"github.com/klauspost/compress/s2"
	"google.golang.org/grpc/encoding"
)

// snappyName is the compressor's name in grpc-encoding.
const snappyName = "snappy"

// RegisterSnappy registers the gRPC compressor "snappy", which Thanos queriers request with
// --grpc-compression=snappy. gRPC keeps compressors in a process-wide table without a lock: call
// RegisterSnappy once, before a server starts.
func RegisterSnappy() { encoding.RegisterCompressor(newSnappyCompressor()) }

// A snappyCompressor compresses messages in Snappy's framing format.
type snappyCompressor struct {
	writers sync.Pool // of *snappyWriter
	readers sync.Pool // of *s2.Reader
}

var _ encoding.Compressor = (*snappyCompressor)(nil)

func newSnappyCompressor() *snappyCompressor {
	c := &snappyCompressor{}
	c.writers.New = func() any {
		// One goroutine and small blocks: messages are responses to one of many clients.
		return &snappyWriter{w: s2.NewWriter(nil, s2.WriterSnappyCompat(), s2.WriterConcurrency(1)), pool: &c.writers}
	}
	c.readers.New = func() any {
		return s2.NewReader(nil, s2.ReaderMaxBlockSize(64<<10))
	}
	return c
}

// Name implements encoding.Compressor.
func (c *snappyCompressor) Name() string { return snappyName }

// Compress implements encoding.Compressor.
func (c *snappyCompressor) Compress(w io.Writer) (io.WriteCloser, error) {
	s := c.writers.Get().(*snappyWriter)
	s.to.Writer = w
	s.w.Reset(&s.to)
	return s, nil
}

// Decompress implements encoding.Compressor.
func (c *snappyCompressor) Decompress(r io.Reader) (io.Reader, error) {
	s := c.readers.Get().(*s2.Reader)
	s.Reset(r)
	return &snappyReader{r: s, pool: &c.readers}, nil
}

// A snappyWriter returns to its pool when it is closed.
type snappyWriter struct {
	w    *s2.Writer
	to   pieceWriter
	pool *sync.Pool
}

// maxPiece is the largest write that fits one of gRPC's buffers tightly: the next buffer size is 1 MiB.
const maxPiece = 32 << 10

// A pieceWriter splits writes to a gRPC message, since each write is copied to a buffer of one of a few
// sizes.
type pieceWriter struct{ io.Writer }

// Write implements io.Writer.
func (w *pieceWriter) Write(p []byte) (n int, err error) {
	for {
		piece := p[n:min(n+maxPiece, len(p))]
		m, err := w.Writer.Write(piece)
		n += m
		if err != nil || n == len(p) {
			return n, err
		}
	}
}

func (s *snappyWriter) Write(p []byte) (int, error) { return s.w.Write(p) }

func (s *snappyWriter) Close() error {
	err := s.w.Close()
	s.w.Reset(nil)
	s.to.Writer = nil
	s.pool.Put(s)
	return err
}

// A snappyReader returns its reader to the pool at the end of its message. The reader of a message that is
// not read to its end is left to the garbage collector.
type snappyReader struct {
	r    *s2.Reader // nil once returned
	pool *sync.Pool
}

func (s *snappyReader) Read(p []byte) (int, error) {
	if s.r == nil {
		return 0, io.EOF
	}
	n, err := s.r.Read(p)
	if err == io.EOF { //nolint:errorlint // as io.Reader says
		s.r.Reset(nil)
		s.pool.Put(s.r)
		s.r = nil
	}
	return n, err
}
