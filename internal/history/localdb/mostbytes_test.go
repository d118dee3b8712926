package localdb

import (
	"path/filepath"
	"testing"
)

// TestMostBytes checks which files of a directory have a bound.
func TestMostBytes(t *testing.T) {
	for path, bounded := range map[string]bool{
		"wal/00000003": true, "wal/checkpoint.00000002/00000000": true, "labels.json": true,
		"01KAAAAAAAAAAAAAAAAAAAAAAA/meta.json": true, "01KAAAAAAAAAAAAAAAAAAAAAAA/tombstones": true,
		"01KAAAAAAAAAAAAAAAAAAAAAAA/index": false, "01KAAAAAAAAAAAAAAAAAAAAAAA/chunks/000001": false, "chunks_head/000001": false, "reserve": false,
	} {
		most := MostBytes(filepath.Join("dir", path))
		if bounded != (most > 0) || bounded && most < walSegmentBytes/2 {
			t.Errorf("%s: at most %d bytes, want a bound: %v", path, most, bounded)
		}
	}
}
