package tsblock

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
)

// MetaFile is the object that describes a block. It is the last to be uploaded and the first to be
// deleted: a block without it does not exist.
const MetaFile = "meta.json"

// A Meta is what a block's meta.json says.
type Meta struct {
	ULID ulid.ULID `json:"ulid"`

	// MinTime and MaxTime are in milliseconds. All samples t have MinTime <= t < MaxTime.
	MinTime int64 `json:"minTime"`
	MaxTime int64 `json:"maxTime"`

	Stats      MetaStats      `json:"stats"`
	Compaction MetaCompaction `json:"compaction"`
	Version    int            `json:"version"` // of meta.json: 1
	Thanos     MetaThanos     `json:"thanos"`  // zero for blocks that Prometheus made
}

// MetaStats are counts of a block's contents.
type MetaStats struct {
	NumSamples          uint64 `json:"numSamples"`
	NumFloatSamples     uint64 `json:"numFloatSamples"`
	NumHistogramSamples uint64 `json:"numHistogramSamples"`
	NumSeries           uint64 `json:"numSeries"`
	NumChunks           uint64 `json:"numChunks"`
	NumTombstones       uint64 `json:"numTombstones"`
}

// MetaCompaction says where a block comes from.
type MetaCompaction struct {
	Level     int         `json:"level"`
	Sources   []ulid.ULID `json:"sources"`
	Deletable bool        `json:"deletable"`
	Parents   []struct {
		ULID    ulid.ULID `json:"ulid"`
		MinTime int64     `json:"minTime"`
		MaxTime int64     `json:"maxTime"`
	} `json:"parents"`
	Failed bool     `json:"failed"`
	Hints  []string `json:"hints"`
}

// MetaThanos is what Thanos and Mimir add.
type MetaThanos struct {
	Version int `json:"version"`

	// Labels belong to every series of the block, and are not in its index.
	Labels map[string]string `json:"labels"`

	Downsample struct {
		Resolution int64 `json:"resolution"` // milliseconds; 0: raw
	} `json:"downsample"`
	Source string `json:"source"`

	// Files lists the block's objects by path, where the uploader wrote it down.
	Files []struct {
		Path  string `json:"rel_path"`
		Bytes int64  `json:"size_bytes"`
	} `json:"files"`
	UploadTime time.Time `json:"upload_time"`
}

// ParseMeta reads a meta.json.
func ParseMeta(text []byte) (*Meta, error) {
	m := new(Meta)
	if err := json.Unmarshal(text, m); err != nil {
		return nil, fmt.Errorf("parse meta.json: %w", err)
	}
	switch {
	case m.Version != 1:
		return nil, fmt.Errorf("parse meta.json: version %d is not 1", m.Version)
	case m.ULID == ulid.ULID{}:
		return nil, errors.New("parse meta.json: it names no block")
	case m.MinTime > m.MaxTime:
		return nil, fmt.Errorf("parse meta.json: times from %d to %d", m.MinTime, m.MaxTime)
	}
	return m, nil
}
