package history

import (
	"fmt"

	"github.com/klauspost/compress/zstd"

	"github.com/taredb/tare/stmtstats"
)

// An unzipper takes pages of texts apart, of one file or of many. It is for one goroutine.
type unzipper struct{ z *zstd.Decoder }

// unzip appends a page of texts to dst.
func (u *unzipper) unzip(dst, page []byte) ([]byte, error) {
	if u.z == nil {
		z, err := zstd.NewReader(nil, zstd.WithDecoderConcurrency(1), zstd.WithDecoderMaxMemory(textPage), zstd.WithDecoderLowmem(true))
		if err != nil {
			return nil, fmt.Errorf("read texts: %w", err)
		}
		u.z = z
	}
	return u.z.DecodeAll(page, dst)
}

func (u *unzipper) close() {
	if u.z != nil {
		u.z.Close()
	}
}

// A rollupTexts tells the texts of rows. It holds one page.
type rollupTexts struct {
	file         *rollupFile
	unzipper     *unzipper
	refs, places columnReader
	pages        columnReader
	ends         []uint64
	page         []byte
	number       int // of page; -1: none
}

func (f *rollupFile) openTexts(u *unzipper, window int64) (*rollupTexts, error) {
	t := &rollupTexts{file: f, unzipper: u, pages: f.reader(colTextPages, f.little()), number: -1}
	var err error
	if t.refs, err = f.numberReader(colTexts, window); err != nil {
		return nil, err
	}
	if t.places, err = f.numberReader(colTextPlaces, window); err != nil {
		return nil, err
	}
	t.ends, err = f.textEnds()
	return t, err
}

// text is that of a row, valid until the next call; empty if there is none.
func (t *rollupTexts) text(row int) ([]byte, error) {
	ref, err := t.refs.number(row)
	if err != nil || ref == 0 {
		return nil, err
	}
	if ref > uint64(t.file.texts) {
		return nil, badRollup("text %d of %d", ref, t.file.texts)
	}
	place, err := t.places.number(int(ref - 1))
	if err != nil {
		return nil, err
	}
	if place>>16 >= uint64(len(t.ends)) {
		return nil, badRollup("page %d of %d with texts", place>>16, len(t.ends))
	}
	if number := int(place >> 16); number != t.number {
		from := int64(0)
		if number > 0 {
			from = int64(t.ends[number-1])
		}
		b, err := t.pages.bytes(from, int64(t.ends[number])-from)
		if err != nil {
			return nil, err
		}
		t.number = -1
		if t.page, err = t.unzipper.unzip(t.page[:0], b); err != nil {
			return nil, badRollup("page %d of its texts: %v", number, err)
		}
		t.number = number
	}
	at := int(place & 0xffff)
	if at > len(t.page) {
		return nil, badRollup("a text at %d of %d", at, len(t.page))
	}
	size, next := stmtstats.Uvarint(t.page, at)
	if next < 0 || size > uint64(len(t.page)-next) {
		return nil, badRollup("a text of %d bytes at %d of %d", size, at, len(t.page))
	}
	return t.page[next:][:size], nil
}
