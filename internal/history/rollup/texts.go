package rollup

import (
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/taredb/tare/internal/history/stmtstats"
)

// A TextDecoder decompresses pages of texts, of any number of files. It must not be used concurrently.
type TextDecoder struct{ z *zstd.Decoder }

// decode appends a page of texts to dst.
func (u *TextDecoder) decode(dst, page []byte) ([]byte, error) {
	if u.z == nil {
		z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(textPage), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, fmt.Errorf("read texts: %w", err)
		}
		u.z = z
	}
	return u.z.DecodeAll(page, dst)
}

// Close releases the decoder.
func (u *TextDecoder) Close() {
	if u.z != nil {
		u.z.Close()
	}
}

// A TextReader reads the texts of rows, through a buffer of one page.
type TextReader struct {
	file         *File
	unzipper     *TextDecoder
	refs, places ColumnReader
	pages        ColumnReader
	ends         []uint64
	page         []byte
	number       int // of page; -1: none
}

// Texts returns a reader of the texts.
func (f *File) Texts(u *TextDecoder, window int64) (*TextReader, error) {
	t := &TextReader{file: f, unzipper: u, pages: f.Column(colTextPages, f.little()), number: -1}
	var err error
	if t.refs, err = f.Numbers(colTexts, window); err != nil {
		return nil, err
	}
	if t.places, err = f.Numbers(colTextPlaces, window); err != nil {
		return nil, err
	}
	t.ends, err = f.textEnds()
	return t, err
}

// Text returns the text of a row, valid until the next call; it is empty if there is none.
func (t *TextReader) Text(row int) ([]byte, error) {
	ref, err := t.refs.Number(row)
	if err != nil || ref == 0 {
		return nil, err
	}
	if ref > uint64(t.file.texts) {
		return nil, FormatErrorf("text %d of %d", ref, t.file.texts)
	}
	place, err := t.places.Number(int(ref - 1))
	if err != nil {
		return nil, err
	}
	if place>>16 >= uint64(len(t.ends)) {
		return nil, FormatErrorf("page %d of %d with texts", place>>16, len(t.ends))
	}
	if number := int(place >> 16); number != t.number {
		from := int64(0)
		if number > 0 {
			from = int64(t.ends[number-1])
		}
		b, err := t.pages.Bytes(from, int64(t.ends[number])-from)
		if err != nil {
			return nil, err
		}
		t.number = -1
		if t.page, err = t.unzipper.decode(t.page[:0], b); err != nil {
			return nil, FormatErrorf("page %d of its texts: %v", number, err)
		}
		t.number = number
	}
	at := int(place & 0xffff)
	if at > len(t.page) {
		return nil, FormatErrorf("a text at %d of %d", at, len(t.page))
	}
	size, next := stmtstats.Uvarint(t.page, at)
	if next < 0 || size > uint64(len(t.page)-next) {
		return nil, FormatErrorf("a text of %d bytes at %d of %d", size, at, len(t.page))
	}
	return t.page[next:][:size], nil
}
