package dump

import (
	"bytes"
	"errors"
	"strings"
	"testing"

	"github.com/taredb/tare/mysql/rowstream"
)

// TestChunkHeaders reads chunk files with right checksums whose header is not that of the compression that dumps have: of another
// format or version, of another dictionary or window, or none. Each is refused with its name.
func TestChunkHeaders(t *testing.T) {
	to := memory()
	w, err := newChunkWriter(to)
	if err != nil {
		t.Fatal(err)
	}
	w.begin(func(int) string { return "sound" })
	if err := w.write(t.Context(), testBatch(100)); err != nil {
		t.Fatal(err)
	}
	files, err := w.end(t.Context())
	if err != nil {
		t.Fatal(err)
	}
	sound, err := to.load(t.Context(), files[0], nil)
	if err != nil {
		t.Fatal(err)
	}
	sound = bytes.Clone(sound)
	read := func(text []byte) error {
		f, err := to.put(t.Context(), "chunk", text)
		if err != nil {
			t.Fatal(err)
		}
		k := &Chunk{Rows: 100, Bytes: int64(len(testBatch(100).Bytes)), Files: []File{f}, Done: true}
		d := &Dump{from: *to, m: &Manifest{Tables: []*Table{{Schema: "shop", Name: "orders", Shape: testTable, Create: File{Name: "c"}, Chunks: []*Chunk{k}}}}}
		v, err := d.Snapshot(t.Context(), 1, nil)
		if err != nil {
			t.Fatal(err)
		}
		defer func() {
			if err := v.Close(); err != nil {
				t.Error(err)
			}
		}()
		for _, err := range v.Reader(0).Read(t.Context(), testTable, rowstream.Chunk{}, rowstream.ReadOptions{}) {
			if err != nil {
				return err
			}
		}
		return nil
	}
	if err := read(sound); err != nil {
		t.Fatal(err)
	}
	header := func(change ...byte) []byte { return append(change, sound[len(change):]...) }
	with := func(at int, bits byte) []byte {
		text := bytes.Clone(sound)
		text[at] |= bits
		return text
	}
	rows := []byte("1\ta\n")
	for name, text := range map[string][]byte{
		"nothing":                      {},
		"a part of the header":         sound[:3],
		"the header alone":             sound[:5],
		"rows that are not compressed": bytes.Repeat(rows, 100),
		"gzip":                         header(0x1f, 0x8b, 8, 0),
		"zeros":                        header(0, 0, 0, 0),
		"the version before":           header(0x27, 0xb5, 0x2f, 0xfd),
		"the version after":            header(0x29, 0xb5, 0x2f, 0xfd),
		"a frame to skip":              header(0x50, 0x2a, 0x4d, 0x18),
		"the reserved bit":             with(4, 0x08),
		"a dictionary":                 with(4, 0x01),
		"the largest window":           header(sound[0], sound[1], sound[2], sound[3], 0x04, 0xff),
		"another frame after it":       append(bytes.Clone(sound), 0x27, 0xb5, 0x2f, 0xfd, 0, 0),
		"text after it":                append(bytes.Clone(sound), rows...),
	} {
		err := read(text)
		if !errors.Is(err, ErrDamaged) || !strings.Contains(err.Error(), "chunk") {
			t.Errorf("%s: %v", name, err)
		}
	}
}
