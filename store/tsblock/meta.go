package tsblock

import (
	"bytes"
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

// metaCompaction describes the origin of a block. The lists of its sources, parents and hints are skipped: no reader uses them.
type metaCompaction struct {
	Level int `json:"level"`
}

// metaThanos is the section that Thanos and Mimir add.
type metaThanos struct {
	Version int `json:"version"`

	// Labels are the external labels: they apply to every series of the block and are not in its index.
	Labels metaLabels `json:"labels"`

	Downsample struct {
		Resolution int64 `json:"resolution"` // milliseconds; 0: raw
	} `json:"downsample"`
	Source string `json:"source"`

	// Files lists the block's objects by path, if the uploader recorded them.
	Files      metaFiles `json:"files"`
	UploadTime time.Time `json:"upload_time"`
}

// Bounds of the lists of a meta.json, whose elements are many times larger in memory than in the text.
const (
	maxMetaFiles  = 100_000 // chunk files of 512 MiB
	maxMetaLabels = 10_000
)

// A metaFile is an object of a block.
type metaFile struct {
	Path  string `json:"rel_path"`
	Bytes int64  `json:"size_bytes"`
}

type metaFiles []metaFile

// UnmarshalJSON decodes one element at a time, up to the bound.
func (f *metaFiles) UnmarshalJSON(text []byte) error {
	*f = nil
	d := json.NewDecoder(bytes.NewReader(text))
	if null, err := enter(d, '['); null || err != nil {
		return err
	}
	for d.More() {
		if len(*f) == maxMetaFiles {
			return fmt.Errorf("it has more than %d files", maxMetaFiles)
		}
		var file metaFile
		if err := d.Decode(&file); err != nil {
			return err
		}
		*f = append(*f, file)
	}
	return nil
}

type metaLabels map[string]string

// UnmarshalJSON decodes one label at a time, up to the bound.
func (l *metaLabels) UnmarshalJSON(text []byte) error {
	*l = nil
	d := json.NewDecoder(bytes.NewReader(text))
	if null, err := enter(d, '{'); null || err != nil {
		return err
	}
	*l = make(metaLabels)
	for n := 0; d.More(); n++ {
		if n == maxMetaLabels {
			return fmt.Errorf("it has more than %d external labels", maxMetaLabels)
		}
		name, err := d.Token() // a string
		if err != nil {
			return err
		}
		var value string
		if err := d.Decode(&value); err != nil {
			return err
		}
		(*l)[name.(string)] = value
	}
	return nil
}

// enter reads the start of a list or an object; null has none.
func enter(d *json.Decoder, start json.Delim) (null bool, err error) {
	token, err := d.Token()
	if err == nil && token != nil && token != start {
		err = fmt.Errorf("%.40v in place of %v", token, start)
	}
	return token == nil, err
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
