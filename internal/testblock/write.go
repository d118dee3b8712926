package testblock

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"iter"
	"math"
	"os"
	"path/filepath"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/histogram"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
)

// commitEvery is the number of samples appended in one transaction of the head.
const commitEvery = 20_000

// A Sample is a float, or a histogram if H or FH is set.
type Sample struct {
	ST int64 // start timestamp, written with Options.StartTimestamps; 0: none
	T  int64
	V  float64
	H  *histogram.Histogram
	FH *histogram.FloatHistogram
}

// Series is labels and samples ordered by time.
type Series struct {
	Labels  labels.Labels
	Samples []Sample
}

// Options configures a block. The zero value gives Prometheus' format.
type Options struct {
	// External are the labels of Thanos' section of meta.json, which is written if they are not nil, even if
	// they are empty.
	External map[string]string

	// Resolution is the downsampling in milliseconds that Thanos' section states.
	Resolution int64

	// ChunkRange is the head's, in milliseconds: chunks are cut at its multiples. 0 is that of Prometheus,
	// two hours, which accepts samples at most an hour older than the newest one appended; series that share
	// their time require a range that covers all of it.
	ChunkRange int64

	// SegmentBytes is the size of a chunk file at which the next one starts; 0 is 512 MiB.
	SegmentBytes int64

	// StartTimestamps writes chunks in the encodings that have start timestamps.
	StartTimestamps bool
}

// Write writes a block with the series into dir and returns its id. The samples of one series may be
// overwritten when the sequence continues.
func Write(dir string, series iter.Seq[Series], o Options) (id ulid.ULID, err error) {
	head, cleanup, err := newHead(o)
	if err != nil {
		return ulid.ULID{}, err
	}
	defer func() { err = errors.Join(err, cleanup()) }()
	if err := fill(head, series); err != nil {
		return ulid.ULID{}, err
	}

	compactor, err := tsdb.NewLeveledCompactorWithOptions(context.Background(), nil, promslog.NewNopLogger(),
		[]int64{head.MaxTime() - head.MinTime() + 1}, chunkenc.NewPool(),
		tsdb.LeveledCompactorOptions{MaxBlockChunkSegmentSize: o.SegmentBytes})
	if err != nil {
		return ulid.ULID{}, err
	}
	if err := os.MkdirAll(dir, 0o777); err != nil {
		return ulid.ULID{}, err
	}
	// A block's time range is half open.
	ids, err := compactor.Write(dir, head, head.MinTime(), head.MaxTime()+1, nil)
	if err != nil {
		return ulid.ULID{}, fmt.Errorf("write the block: %w", err)
	}
	if len(ids) == 0 {
		return ulid.ULID{}, errors.New("write the block: no samples")
	}
	if o.External != nil {
		if err := writeThanos(filepath.Join(dir, ids[0].String()), o); err != nil {
			return ulid.ULID{}, err
		}
	}
	return ids[0], nil
}

// newHead returns an empty head in a temporary directory, and a function that closes and removes it.
func newHead(o Options) (*tsdb.Head, func() error, error) {
	tmp, err := os.MkdirTemp("", "testblock")
	if err != nil {
		return nil, nil, err
	}
	ho := tsdb.DefaultHeadOptions()
	ho.ChunkDirRoot = tmp
	ho.StripeSize = 1 << 10 // no concurrent appends; the default of 16,384 takes time to allocate
	if o.ChunkRange != 0 {
		ho.ChunkRange = o.ChunkRange
	}
	if o.StartTimestamps {
		ho.FloatChunkEncoding.Store(uint32(chunkenc.EncXOR2))
		ho.EnableSTStorage.Store(true)
		ho.EnableHistogramSTEncoding.Store(true)
	}
	head, err := tsdb.NewHead(nil, promslog.NewNopLogger(), nil, nil, ho, tsdb.NewHeadStats())
	if err != nil {
		return nil, nil, errors.Join(err, os.RemoveAll(tmp))
	}
	cleanup := func() error { return errors.Join(head.Close(), os.RemoveAll(tmp)) }
	if err := head.Init(math.MinInt64); err != nil {
		return nil, nil, errors.Join(err, cleanup())
	}
	return head, cleanup, nil
}

// fill appends the series to the head.
func fill(head *tsdb.Head, series iter.Seq[Series]) error {
	app := head.AppenderV2(context.Background())
	pending := 0
	for s := range series {
		var ref storage.SeriesRef
		for i, smp := range s.Samples {
			// A transaction has one kind of samples per series.
			if pending >= commitEvery || i > 0 && kind(smp) != kind(s.Samples[i-1]) {
				if err := app.Commit(); err != nil {
					return fmt.Errorf("commit %s: %w", s.Labels, err)
				}
				app, pending = head.AppenderV2(context.Background()), 0
			}
			pending++
			var err error
			ref, err = app.Append(ref, s.Labels, smp.ST, smp.T, smp.V, smp.H, smp.FH, storage.AppendV2Options{})
			if err != nil {
				return errors.Join(fmt.Errorf("append %s at %d: %w", s.Labels, smp.T, err), app.Rollback())
			}
		}
	}
	return app.Commit()
}

func kind(s Sample) chunkenc.ValueType {
	switch {
	case s.H != nil:
		return chunkenc.ValHistogram
	case s.FH != nil:
		return chunkenc.ValFloatHistogram
	}
	return chunkenc.ValFloat
}

// thanosMeta is Thanos' section of meta.json, as read by github.com/thanos-io/thanos/pkg/block/metadata.
type thanosMeta struct {
	Version    int               `json:"version"`
	Labels     map[string]string `json:"labels"`
	Downsample struct {
		Resolution int64 `json:"resolution"`
	} `json:"downsample"`
	Source string       `json:"source"`
	Files  []thanosFile `json:"files"`
}

type thanosFile struct {
	RelPath   string `json:"rel_path"`
	SizeBytes int64  `json:"size_bytes,omitempty"`
}

// writeThanos adds Thanos' section to the meta.json of a block.
func writeThanos(block string, o Options) error {
	m := thanosMeta{Version: 1, Labels: o.External, Source: "test"}
	m.Downsample.Resolution = o.Resolution
	err := filepath.WalkDir(block, func(path string, d fs.DirEntry, err error) error {
		if err != nil || d.IsDir() || d.Name() == "tombstones" {
			return err
		}
		info, err := d.Info()
		if err != nil {
			return err
		}
		rel, err := filepath.Rel(block, path)
		if err != nil {
			return err
		}
		f := thanosFile{RelPath: filepath.ToSlash(rel), SizeBytes: info.Size()}
		if rel == "meta.json" {
			f.SizeBytes = 0 // it changes while it is written
		}
		m.Files = append(m.Files, f)
		return nil
	})
	if err != nil {
		return err
	}
	return EditMeta(block, func(meta map[string]any) { meta["thanos"] = m })
}

// EditMeta lets change modify the meta.json of a block directory, decoded by encoding/json.
func EditMeta(block string, change func(meta map[string]any)) error {
	name := filepath.Join(block, "meta.json")
	text, err := os.ReadFile(name)
	if err != nil {
		return err
	}
	meta := map[string]any{}
	if err := json.Unmarshal(text, &meta); err != nil {
		return fmt.Errorf("decode %s: %w", name, err)
	}
	change(meta)
	if text, err = json.MarshalIndent(meta, "", "\t"); err != nil {
		return err
	}
	return os.WriteFile(name, text, 0o666)
}
