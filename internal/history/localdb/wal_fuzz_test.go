package localdb_test

import (
	"bytes"
	"encoding/binary"
	"os"
	"path/filepath"
	"testing"

	"github.com/taredb/tare/internal/alloctest"
	"github.com/taredb/tare/internal/history/localdb"
)

// FuzzWriteAheadLog damages a segment of a write-ahead log: patches are offsets with new bytes; the file ends at size. The
// database opens, has no samples but those that were written, and takes new ones.
func FuzzWriteAheadLog(f *testing.F) {
	var good []byte
	f.Add([]byte{}, 1<<20)
	f.Add([]byte{0, 0, 0, 0, 1, 9}, 1<<20)
	f.Add([]byte{100, 0, 0, 0, 2, 9, 9}, 3000)
	f.Fuzz(func(t *testing.T, patches []byte, size int) {
		all := []series{{"a", 1, false}, {"b", 2, false}}
		l := &lostLog{T: t, path: t.TempDir()}
		wal := filepath.Join(l.path, localdb.WALName, "00000000")
		if good == nil {
			l.open()
			l.append(0, all...)
			l.close()
			text, err := os.ReadFile(wal)
			if err != nil {
				t.Fatal(err)
			}
			good = text
			return
		}
		text := bytes.Clone(good)
		for len(patches) > 5 {
			at, n := int(binary.LittleEndian.Uint32(patches)), int(patches[4])
			patches = patches[5:]
			n = min(n, len(patches))
			if at < len(text) {
				copy(text[at:], patches[:n])
			}
			patches = patches[n:]
		}
		text = text[:min(max(size, 0), len(text))]
		if err := os.MkdirAll(filepath.Dir(wal), 0o700); err != nil {
			t.Fatal(err)
		}
		if err := os.WriteFile(wal, text, 0o600); err != nil {
			t.Fatal(err)
		}
		check := alloctest.Bounded(t, 128<<20)
		l.open()
		check()
		later := series{"c", 3, false}
		l.append(400*60_000, later)
		l.check(later)
		l.close()
	})
}
