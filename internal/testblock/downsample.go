package testblock

import (
	"context"
	"encoding/binary"
	"encoding/json"
	"fmt"
	"math"
	"os"
	"path/filepath"
	"slices"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/common/promslog"
	"github.com/prometheus/prometheus/model/labels"
	"github.com/prometheus/prometheus/model/value"
	"github.com/prometheus/prometheus/storage"
	"github.com/prometheus/prometheus/tsdb"
	"github.com/prometheus/prometheus/tsdb/chunkenc"
	"github.com/prometheus/prometheus/tsdb/chunks"
)

// aggregateChunk is a chunk in the format of Thanos' downsampled blocks.
type aggregateChunk struct {
	chunkenc.Chunk // of the counts

	data []byte
}

func (c aggregateChunk) Bytes() []byte               { return c.data }
func (c aggregateChunk) Encoding() chunkenc.Encoding { return 0xff }

// Downsample writes a copy of a block of floats, downsampled to a resolution in milliseconds in the format of
// Thanos, and returns its id. A chunk has the aggregates of up to perChunk intervals.
func Downsample(dir string, id ulid.ULID, resolution int64, perChunk int) (ulid.ULID, error) {
	b, err := tsdb.OpenBlock(promslog.NewNopLogger(), filepath.Join(dir, id.String()), nil, nil)
	if err != nil {
		return ulid.ULID{}, err
	}
	defer b.Close()
	q, err := tsdb.NewBlockQuerier(b, math.MinInt64, math.MaxInt64)
	if err != nil {
		return ulid.ULID{}, err
	}
	defer q.Close()
	all, err := aggregateSeries(q, resolution, perChunk)
	if err != nil {
		return ulid.ULID{}, err
	}
	copied := id
	copied[15] ^= byte(resolution/60_000) | 0x80
	out := filepath.Join(dir, copied.String())
	if err := writeChunks(out, all); err != nil {
		return ulid.ULID{}, err
	}
	text, err := os.ReadFile(filepath.Join(dir, id.String(), "meta.json"))
	if err != nil {
		return ulid.ULID{}, err
	}
	if err := os.WriteFile(filepath.Join(out, "meta.json"), text, 0o600); err != nil {
		return ulid.ULID{}, err
	}
	return copied, EditMeta(out, func(m map[string]any) {
		m["ulid"] = copied.String()
		section, _ := m["thanos"].(map[string]any)
		section["downsample"] = map[string]any{"resolution": json.Number(fmt.Sprint(resolution))}
		delete(section, "files")
	})
}

func aggregateSeries(q storage.Querier, resolution int64, perChunk int) (all []chunked, err error) {
	set := q.Select(context.Background(), true, nil, labels.MustNewMatcher(labels.MatchRegexp, "__name__", ".*"))
	for set.Next() {
		s := chunked{labels: set.At().Labels()}
		var windows [][]Sample
		it := set.At().Iterator(nil)
		for it.Next() == chunkenc.ValFloat {
			t, v := it.At()
			if value.IsStaleNaN(v) || math.IsNaN(v) {
				continue
			}
			if n := len(windows); n == 0 || windows[n-1][0].T/resolution != t/resolution {
				windows = append(windows, nil)
			}
			windows[len(windows)-1] = append(windows[len(windows)-1], Sample{T: t, V: v})
		}
		if it.Err() != nil {
			return nil, it.Err()
		}
		for some := range slices.Chunk(windows, perChunk) {
			s.chunks = append(s.chunks, aggregate(some, resolution))
		}
		if len(s.chunks) > 0 {
			all = append(all, s)
		}
	}
	return all, set.Err()
}

// aggregate returns the chunk of some intervals.
func aggregate(windows [][]Sample, resolution int64) chunks.Meta {
	var encoded [5]*chunkenc.XORChunk
	var apps [5]chunkenc.Appender
	for i := range encoded {
		encoded[i] = chunkenc.NewXORChunk()
		apps[i], _ = encoded[i].Appender()
	}
	tail := windows[len(windows)-1]
	final := tail[len(tail)-1]
	apps[4].Append(0, windows[0][0].T, windows[0][0].V)
	counter, last := windows[0][0].V, windows[0][0].V
	end := int64(0)
	meta := chunks.Meta{}
	for n, w := range windows {
		end = min(w[0].T/resolution*resolution+resolution-1, final.T)
		values := [4]float64{float64(len(w)), 0, math.Inf(1), math.Inf(-1)}
		for _, s := range w {
			values[1] += s.V
			values[2], values[3] = min(values[2], s.V), max(values[3], s.V)
			if s.V < last {
				last = 0
			}
			counter, last = counter+s.V-last, s.V
		}
		for i, v := range values {
			apps[i].Append(0, end, v)
		}
		apps[4].Append(0, end, counter)
		if n == 0 {
			meta.MinTime = end
		}
	}
	apps[4].Append(0, end, final.V)
	meta.MaxTime = end
	var data []byte
	for _, c := range encoded {
		data = binary.AppendUvarint(data, uint64(len(c.Bytes())))
		data = append(append(data, byte(chunkenc.EncXOR)), c.Bytes()...)
	}
	meta.Chunk = aggregateChunk{encoded[0], data}
	return meta
}
