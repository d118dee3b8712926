package dump

import (
	"bytes"
	"context"
	"errors"
	"fmt"
	"io"

	"github.com/klauspost/compress/zstd"

	"github.com/taredb/tare/mysql/rowstream"
)

const (
	// MaxFileBytes is the number of compressed bytes after which a file ends with the current row.
	MaxFileBytes = 32 << 20

	// windowBytes is the window of the compression: larger ones cost memory, and hardly compress text better.
	windowBytes = 4 << 20

	// wideBatch is the size in bytes from which a batch is written in parts.
	wideBatch = 4 << 20

	// keptBytes is the capacity of a text that is kept between batches.
	keptBytes = 4 * rowstream.DefaultBatchBytes
)

// A chunkWriter writes the rows of one chunk after another to files. It reuses its memory.
type chunkWriter struct {
	to    *Destination
	limit int // MaxFileBytes

	zip  *zstd.Encoder
	file bytes.Buffer // the current file
	text []byte
	name func(part int) string
	open bool // the current file has rows

	files []File
}

func newChunkWriter(to *Destination) (*chunkWriter, error) {
	w := &chunkWriter{to: to, limit: MaxFileBytes}
	var err error
	w.zip, err = zstd.NewWriter(nil, zstd.WithEncoderLevel(zstd.SpeedFastest), zstd.WithEncoderConcurrency(1), zstd.WithWindowSize(windowBytes), zstd.WithLowerEncoderMem(true))
	return w, err
}

// begin starts a chunk, whose files get names by their number.
func (w *chunkWriter) begin(name func(part int) string) {
	w.name, w.open, w.files = name, false, nil
}

// write adds rows. It allocates neither per row nor per batch.
func (w *chunkWriter) write(ctx context.Context, b *rowstream.Batch) error {
	if !w.open {
		if w.file.Cap() > 2*w.limit { // after a wide row
			w.file = bytes.Buffer{}
		}
		w.file.Reset()
		w.zip.Reset(&w.file)
		w.open = true
	}
	if err := w.compress(b); err != nil {
		return err
	}
	if w.file.Len() < w.limit {
		return nil
	}
	return w.endFile(ctx)
}

func (w *chunkWriter) compress(b *rowstream.Batch) (err error) {
	if len(b.Bytes) > wideBatch {
		w.text, err = rowstream.StreamLoad(w.text[:0], b, func(part []byte) error {
			_, err := w.zip.Write(part)
			return err
		})
		return err
	}
	if w.text, err = rowstream.AppendLoad(w.text[:0], b); err != nil {
		return err
	}
	_, err = w.zip.Write(w.text)
	if cap(w.text) > keptBytes {
		w.text = nil
	}
	return err
}

// endFile uploads the current file.
func (w *chunkWriter) endFile(ctx context.Context) error {
	if err := w.zip.Close(); err != nil {
		return fmt.Errorf("compress rows: %w", err)
	}
	w.open = false
	f, err := w.to.put(ctx, w.name(len(w.files)), w.file.Bytes())
	if err == nil {
		w.files = append(w.files, f)
	}
	return err
}

// end ends the chunk and returns its files.
func (w *chunkWriter) end(ctx context.Context) ([]File, error) {
	if w.open {
		if err := w.endFile(ctx); err != nil {
			return nil, err
		}
	}
	return w.files, nil
}

// A chunkReader reads the files of chunks. It reuses its memory.
type chunkReader struct {
	from *Destination

	zip   *zstd.Decoder
	file  []byte
	text  []byte // decompressed, from used on not parsed yet
	used  int
	left  int64 // bytes that the chunk's files may still decompress to
	batch rowstream.Batch
}

// errTooLong reports files that decompress to more than the manifest allows.
var errTooLong = errors.New("it decompresses to more bytes than the chunk has by the manifest")

// begin starts a chunk, which bounds the bytes that its files decompress to: escapes double a value at most, and each has
// an end.
func (r *chunkReader) begin(k *Chunk, columns int) {
	r.left = 2*k.Bytes + (k.Rows+1)*int64(columns+1)*4
}

func newChunkReader(from *Destination) (*chunkReader, error) {
	r := &chunkReader{from: from}
	var err error
	r.zip, err = zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxWindow(2*windowBytes), zstd.WithDecoderLowmem(true))
	return r, err
}

// read yields the rows of a file in batches of about the given bytes until yield returns false, which it reports.
func (r *chunkReader) read(ctx context.Context, f File, columns, batchBytes int, yield func(*rowstream.Batch) (bool, error)) (more bool, err error) {
	if cap(r.file) > 2*MaxFileBytes {
		r.file = nil
	}
	if r.file, err = r.from.load(ctx, f, r.file); err != nil {
		return true, err
	}
	if err := r.zip.Reset(bytes.NewReader(r.file)); err != nil {
		return true, r.damaged(f, err)
	}
	if cap(r.text) > 4*keptBytes || cap(r.text) == 0 {
		r.text = make([]byte, 0, keptBytes)
	}
	r.text, r.used = r.text[:0], 0
	for {
		ended, err := r.fill()
		if err != nil {
			return true, r.damaged(f, err)
		}
		for {
			r.batch.Reset(columns)
			r.batch.Shrink(rowstream.RoomKept(batchBytes))
			n, err := rowstream.ParseLoad(&r.batch, r.text[r.used:], batchBytes)
			if err != nil {
				return true, r.damaged(f, err)
			}
			r.used += n
			if n == 0 {
				break
			}
			if more, err := yield(&r.batch); err != nil || !more {
				return more, err
			}
		}
		if ended && r.used < len(r.text) {
			return true, r.damaged(f, fmt.Errorf("%w: the last row has no end", rowstream.ErrLoadText))
		}
		if ended {
			return true, nil
		}
	}
}

// fill decompresses more of the file into the text, whose parsed part is dropped. It grows the text if a row is longer.
func (r *chunkReader) fill() (ended bool, err error) {
	n := copy(r.text, r.text[r.used:])
	r.text, r.used = r.text[:n], 0
	if n == cap(r.text) {
		r.text = append(make([]byte, 0, 2*n), r.text...)
	}
	for len(r.text) < cap(r.text) {
		n, err := r.zip.Read(r.text[len(r.text):cap(r.text)])
		r.text = r.text[:len(r.text)+n]
		if r.left -= int64(n); r.left < 0 {
			return false, errTooLong
		}
		if err == io.EOF { //nolint:errorlint // the decoder's own end, which it never wraps
			return true, nil
		}
		if err != nil {
			return false, err
		}
	}
	return false, nil
}

func (r *chunkReader) damaged(f File, err error) error {
	return fmt.Errorf("read %s of %s: %w, although its SHA-256 is right: %w", f.Name, r.from.Name, ErrDamaged, err)
}

func (r *chunkReader) close() { r.zip.Close() }
