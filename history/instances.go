package history

import (
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"maps"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strconv"
	"strings"
	"time"

	"github.com/taredb/tare/internal/history/localdb"
	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/internal/store/blocksync"
)

// The first instance label is that of the options, and its series are in the archive's directory. Later ones
// have a suffix with their number, and a subdirectory.
const (
	instancePrefix = "instance-"
	instanceFile   = "instance.json"
	instanceMark   = "~"
)

// holdInstance is the minimum time between two new instance labels of a process, by the monotonic clock: a
// clock that is set back and forth does not start one each time.
const holdInstance = time.Hour

var instancePiece = localstate.Piece{Name: "instance", Lost: "local series of this instance label; counters continue"}

// An instanceRecord is the file of an instance other than the first one. A directory without it was left by a
// process that was killed before the instance started.
type instanceRecord struct {
	Number int    `json:"number"`
	Base   int64  `json:"base"` // see instance
	LastID uint64 `json:"lastId"`
	Ended  int64  `json:"ended"` // milliseconds: the newest samples of the previous instance
	Dir    string `json:"-"`     // below that of the archive
}

// labels returns the labels of the series, derived from those of the options.
func (r *instanceRecord) labels(first map[string]string) map[string]string {
	labels := maps.Clone(first)
	if r.Number > 1 {
		labels[InstanceLabel] += instanceMark + strconv.Itoa(r.Number)
	}
	return labels
}

// readInstances returns the records of all instances in the directory, the oldest first.
func (a *Archive) readInstances() ([]instanceRecord, error) {
	records := []instanceRecord{{Number: 1}}
	entries, err := os.ReadDir(a.options.Dir)
	if err != nil {
		return nil, fmt.Errorf("list instances: %w", err)
	}
	for _, e := range entries {
		n, err := strconv.Atoi(strings.TrimPrefix(e.Name(), instancePrefix))
		if err != nil || n < 2 || !strings.HasPrefix(e.Name(), instancePrefix) {
			continue
		}
		r, err := readInstance(filepath.Join(a.options.Dir, e.Name()), n)
		if err != nil {
			if _, ok := a.options.State.SetAside(filepath.Join(a.options.Dir, e.Name()), instancePiece, err); !ok {
				return nil, fmt.Errorf("set aside %s: %w", e.Name(), err)
			}
			continue
		}
		r.Dir = e.Name()
		records = append(records, r)
	}
	slices.SortFunc(records, func(a, b instanceRecord) int { return a.Number - b.Number })
	return records, nil
}

func readInstance(dir string, number int) (r instanceRecord, err error) {
	text, err := localstate.ReadFile(filepath.Join(dir, instanceFile))
	if err == nil {
		err = json.Unmarshal(text, &r)
	}
	if err == nil && (r.Number != number || r.Base <= 0) {
		err = fmt.Errorf("%s has number %d and base %d", instanceFile, r.Number, r.Base)
	}
	return r, err
}

// An Instance is the local data of an Archive under one instance label. A new one starts each time that the
// clock is set back too far.
type Instance struct {
	Labels  map[string]string // of all series
	Hash    string            // of the labels, as computed by rollup.LabelsHash
	Base    int64             // Unix milliseconds: the first samples, which include earlier counts; 0: no earlier instance
	LastID  uint64            // of the Keys in these samples: their first calls may be later by the clock that was set back
	Past    bool              // nothing is written to it any more
	Settled int64             // Unix milliseconds: all samples up to it are written, but for a 0 before the first sample of a series; 0 before the first round
	Samples *localdb.Database
	Rollups *rollup.Store
}

// Instances returns all instances, the oldest first. The Archive writes to the last one.
func (a *Archive) Instances() []Instance {
	all := a.all()
	out := make([]Instance, len(all))
	for i, in := range all {
		out[i] = Instance{
			Labels: in.labels, Hash: in.hash, Base: in.base, LastID: in.writer.lastID, Past: in.past.Load(), Settled: min(in.settled.Load(), localdb.LastTime(in.db.Current())), Samples: in.db, Rollups: in.rollups,
		}
	}
	return out
}

// Whole returns a time before which all calls are in samples; zero before the first round.
func (a *Archive) Whole() time.Time {
	if in := a.current(); in != nil {
		if whole := in.whole.Load(); whole > 0 {
			return time.UnixMilli(whole)
		}
	}
	return time.Time{}
}

// Earliest returns the time before which Queryable has no sample, local or in the bucket. It returns false if that is unknown:
// while the archive waits, and unless the last sync of the bucket serves all of its blocks.
func (a *Archive) Earliest() (time.Time, bool) {
	if a.Waiting() != nil {
		return time.Time{}, false
	}
	first := int64(math.MaxInt64)
	for _, in := range a.all() {
		first = min(first, localdb.Start(in.db.Current()))
	}
	bucket := a.options.Gateway.StatusPage()
	for i := range bucket.Blocks {
		first = min(first, bucket.Blocks[i].MinTime)
	}
	sync := &bucket.Sync
	if first == math.MaxInt64 || sync.LastGood.IsZero() || sync.Error != "" || sync.Skipped+sync.OtherShard > 0 {
		return time.Time{}, false
	}
	return time.UnixMilli(first).UTC(), true
}

// Keys returns the number of Keys visited by the newest round.
func (a *Archive) Keys() int64 {
	if in := a.current(); in != nil {
		return in.writer.counts.keys.Load()
	}
	return 0
}

// A ClockStep is a step back of the clock that started another instance label.
type ClockStep struct {
	From, To      time.Time // the newest samples before, the first ones after
	Before, After string    // instance labels
}

// ClockSteps returns all clock steps, the oldest first.
func (a *Archive) ClockSteps() (steps []ClockStep) {
	all := a.all()
	for i := 1; i < len(all); i++ {
		in := all[i]
		steps = append(steps, ClockStep{
			From: time.UnixMilli(in.ended).UTC(), To: time.UnixMilli(in.base).UTC(),
			Before: all[i-1].labels[InstanceLabel], After: in.labels[InstanceLabel],
		})
	}
	return steps
}

// tooFarAhead reports whether another instance label must be started. The caller holds flushing.
func (a *Archive) tooFarAhead(in *instance) bool {
	w := in.writer
	elapsed := a.options.Elapsed()
	at := w.last + (elapsed - w.lastElapsed).Milliseconds()
	return w.last > 0 && elapsed >= a.hold && at-a.options.Now().UnixMilli() > a.options.MaxAhead.Milliseconds()
}

// startInstance writes all counters to an instance, and the same values as the first samples of another one,
// at the time of the clock. The caller holds flushing.
func (a *Archive) startInstance(ctx context.Context, in *instance) (*instance, error) {
	if err := in.ready(); err != nil {
		return nil, err
	}
	r := instanceRecord{Number: in.number + 1}
	for slices.ContainsFunc(a.options.Gateway.Blocks(), func(b blocksync.BlockInfo) bool { return maps.Equal(b.Labels, r.labels(a.options.Labels)) }) {
		r.Number++ // the directory of an earlier one was lost
	}
	r.Dir = instancePrefix + strconv.Itoa(r.Number)
	dir := filepath.Join(a.options.Dir, r.Dir)
	if err := errors.Join(os.RemoveAll(dir), a.options.State.Dir(dir, localstate.File{Piece: instancePiece})); err != nil {
		return nil, fmt.Errorf("create instance: %w", err)
	}
	next, err := a.openInstance(r, false)
	if err != nil {
		return nil, fmt.Errorf("create instance: %w", err)
	}
	a.options.Source.MarkAllChanged()
	err = in.writer.handOver(ctx, next.writer)
	if in.writer.broken != nil {
		in.stop(in.writer.broken, true)
	} else {
		in.resume()
		in.written()
	}
	if err == nil {
		r.Base, r.LastID, r.Ended = next.writer.began, next.writer.lastID, in.writer.last
		err = writeInstance(dir, &r)
	}
	if err != nil {
		a.options.State.Forget(dir)
		return nil, errors.Join(fmt.Errorf("start instance %s: %w", next.labels[InstanceLabel], err), next.close(), os.RemoveAll(dir))
	}
	next.base, next.ended = r.Base, r.Ended
	next.written()
	a.mu.Lock()
	a.instances = append(a.instances, next)
	a.mu.Unlock()
	in.finish()
	a.hold = a.options.Elapsed() + holdInstance
	if a.start != nil {
		a.start(next)
	}
	ahead := time.Duration(in.writer.last-r.Base) * time.Millisecond
	a.log.Warn("the clock was set back: samples continue at its time with another instance label",
		"instance", next.labels[InstanceLabel], "before", in.labels[InstanceLabel], "ahead", ahead, "most", a.options.MaxAhead)
	return next, nil
}

func writeInstance(dir string, r *instanceRecord) error {
	text, err := json.Marshal(r)
	if err == nil {
		err = localstate.WriteFile(filepath.Join(dir, instanceFile), text)
	}
	return err
}

var errEvictedMeanwhile = errors.New("digests were evicted within the round")

// handOver writes a round, and its counts of each Key also to next: the counters of next continue from these
// values.
func (w *writer) handOver(ctx context.Context, next *writer) error {
	next.last = next.nextTime()
	next.began, next.prev, next.app = next.last, next.last, next.db.AppenderV2(ctx)
	next.orphans, next.previous = nil, nil
	w.next = next
	err := w.round(ctx, false)
	w.next = nil
	err = errors.Join(err, next.commit())
	if err != nil {
		return err
	}
	for id, e := range w.tracks {
		if next.tracks[id] == nil && e.written > 0 {
			return errEvictedMeanwhile // its counts would appear as an increase of Evicted
		}
	}
	next.good, next.full = next.last, next.last
	for id := range next.tracks {
		next.lastID = max(next.lastID, id)
	}
	return nil
}

// copyFrom writes the first sample of a Key, without a zero sample before it.
func (w *writer) copyFrom(s *stmtstats.Sample) error {
	if s.Kind == stmtstats.Removed {
		return nil
	}
	if len(w.batch) >= maxBatchKeys {
		if err := w.commit(); err != nil {
			return err
		}
		w.app = w.db.AppenderV2(context.Background())
	}
	e := w.newTrack(s)
	e.born = false
	if s.Kind == stmtstats.Tracked && s.Text != "" {
		w.setInfo(e, s.Text)
	}
	e.visited = w.last
	if s.Counts[stmtstats.Calls] == 0 && s.Histogram.Nanos == 0 {
		e.clean = true
		return nil
	}
	w.batch = append(w.batch, e)
	if err := w.append(e, s); err != nil {
		return fmt.Errorf("append first samples of digest %x: %w", e.key.Digest, err)
	}
	e.written, e.calls, e.nanos, e.clean = w.last, s.Counts[stmtstats.Calls], s.Histogram.Nanos, true
	return nil
}
