package history

import (
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"os"
	"path/filepath"
	"slices"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/store/tsblock"
)

var shippedPiece = localstate.Piece{Name: "shipped blocks", Lost: "nothing: local blocks are compared with the bucket again"}

// shippedName is the file that lists the shipped blocks, with the name and format of Thanos' sidecar.
const shippedName = "thanos.shipper.json"

// shippedFile is that format, version 1.
type shippedFile struct {
	Version  int         `json:"version"`
	Uploaded []ulid.ULID `json:"uploaded"`
}

// readShipped returns the shipped blocks; none if there is no file.
func readShipped(dir string) ([]ulid.ULID, error) {
	name := filepath.Join(dir, shippedName)
	text, err := localstate.ReadFile(name)
	if errors.Is(err, fs.ErrNotExist) {
		return nil, nil
	}
	if err != nil {
		return nil, fmt.Errorf("read list of uploaded blocks: %w", err)
	}
	var file shippedFile
	if err := json.Unmarshal(text, &file); err != nil {
		return nil, fmt.Errorf("read list of uploaded blocks: %s: %w", name, err)
	}
	if file.Version != 1 {
		return nil, fmt.Errorf("read list of uploaded blocks: %s has version %d, supported: 1", name, file.Version)
	}
	return file.Uploaded, nil
}

// Shipped reports whether blocks were uploaded from a directory of series, or whether that is unknown.
func Shipped(dir string) bool {
	ids, err := readShipped(dir)
	return len(ids) > 0 || err != nil
}

// writeShipped atomically replaces the file.
func writeShipped(dir string, ids []ulid.ULID) error {
	slices.SortFunc(ids, ulid.ULID.Compare)
	text, err := json.MarshalIndent(shippedFile{Version: 1, Uploaded: ids}, "", "\t")
	if err == nil {
		err = localstate.WriteFile(filepath.Join(dir, shippedName), append(text, '\n'))
	}
	if err != nil {
		return fmt.Errorf("write list of uploaded blocks: %w", err)
	}
	return nil
}

// A blockFile is a shipped file of a block other than meta.json.
type blockFile struct {
	Name  string `json:"rel_path"` // in the block's directory, with slashes
	Bytes int64  `json:"size_bytes,omitempty"`
}

// blockFiles returns the index and the chunk files of a block, chunks first. Tombstones are not shipped:
// blocks of the head have none.
func blockFiles(dir string) ([]blockFile, error) {
	var files []blockFile
	entries, err := os.ReadDir(filepath.Join(dir, "chunks"))
	if err != nil {
		return nil, fmt.Errorf("list chunk files: %w", err)
	}
	for _, e := range entries {
		info, err := e.Info()
		if err != nil {
			return nil, fmt.Errorf("list chunk files: %w", err)
		}
		files = append(files, blockFile{"chunks/" + e.Name(), info.Size()})
	}
	info, err := os.Stat(filepath.Join(dir, "index"))
	if err != nil {
		return nil, fmt.Errorf("read the index: %w", err)
	}
	return append(files, blockFile{"index", info.Size()}), nil
}

// A thanosSection is the section of Thanos in meta.json, version 1.
type thanosSection struct {
	Version    int               `json:"version"`
	Labels     map[string]string `json:"labels"`
	Downsample struct {
		Resolution int64 `json:"resolution"` // 0: raw
	} `json:"downsample"`
	Source string      `json:"source"`
	Files  []blockFile `json:"files"`
}

// metaSource identifies the uploader of a block in meta.json.
const metaSource = "tare"

// thanosMeta returns the meta.json of a block for the bucket. The result depends only on the block and the
// labels.
func thanosMeta(dir string, labels map[string]string, files []blockFile) ([]byte, error) {
	text, err := localstate.ReadFile(filepath.Join(dir, tsblock.MetaFile))
	if err != nil {
		return nil, fmt.Errorf("read meta.json: %w", err)
	}
	var meta struct {
		tsdb.BlockMeta
		Thanos thanosSection `json:"thanos"`
	}
	if err := json.Unmarshal(text, &meta); err != nil {
		return nil, fmt.Errorf("read meta.json: %w", err)
	}
	meta.Thanos = thanosSection{Version: 1, Labels: labels, Source: metaSource, Files: append(slices.Clone(files), blockFile{Name: tsblock.MetaFile})}
	return json.MarshalIndent(&meta, "", "\t")
}
