package tsblock

import (
	"encoding/json"
	"errors"
	"fmt"
	"time"

	"github.com/oklog/ulid/v2"
)

// MetaFile is the name of the object that describes a block. It is uploaded last and deleted first: a block
// without it does not exist.
const MetaFile = "meta.json"

// A Meta is the content of a block's meta.json.
type Meta struct {
	ULID ulid.ULID `json:"ulid"`

	// MinTime and MaxTime are in milliseconds. All samples t have MinTime <= t < MaxTime.
	MinTime int64 `json:"minTime"`
	MaxTime int64 `json:"maxTime"`

	Stats      metaStats      `json:"stats"`
	Compaction metaCompaction `json:"compaction"`
	Version    int            `json:"version"` // of meta.json: 1
	Thanos     metaThanos     `json:"thanos"`  // zero for blocks written by Prometheus
}

// metaStats are counts of a block's contents.
type metaStats struct {
	NumSamples          uint64 `json:"numSamples"`
	NumFloatSamples     uint64 `json:"numFloatSamples"`
	NumHistogramSamples uint64 `json:"numHistogramSamples"`
	NumSeries           uint64 `json:"numSeries"`
	NumChunks           uint64 `json:"numChunks"`
	NumTombstones       uint64 `json:"numTombstones"`
}

// metaCompaction describes the origin of a block.
type metaCompaction struct {
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

// metaThanos is the section that Thanos and Mimir add.
type metaThanos struct {
	Version int `json:"version"`

	// Labels are the external labels: they apply to every series of the block and are not in its index.
	Labels map[string]string `json:"labels"`

	Downsample struct {
		Resolution int64 `json:"resolution"` // milliseconds; 0: raw
	} `json:"downsample"`
	Source string `json:"source"`

	// Files lists the block's objects by path, if the uploader recorded them.
	Files []struct {
		Path  string `json:"rel_path"`
		Bytes int64  `json:"size_bytes"`
	} `json:"files"`
	UploadTime time.Time `json:"upload_time"`
}

// ParseMeta parses a meta.json.
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
