package history

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io/fs"
	"log/slog"
	"math"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"sync"
	"sync/atomic"
	"time"

	"github.com/oklog/ulid/v2"
	"github.com/prometheus/prometheus/tsdb"

	"github.com/taredb/tare/internal/localstate"
)

// A rollupName names a rollup of one gateway.
type rollupName struct {
	start int64 // Unix seconds
	span  time.Duration
}

const (
	rollupSuffix = ".rollup"
	hourLayout   = "hour-2006-01-02T15" + rollupSuffix
	dayLayout    = "day-2006-01-02" + rollupSuffix
)

// String is the name of its file.
func (n rollupName) String() string {
	layout := hourLayout
	if n.span == rollupDay {
		layout = dayLayout
	}
	return time.Unix(n.start, 0).UTC().Format(layout)
}

func parseRollupName(file string) (rollupName, bool) {
	if t, err := time.Parse(hourLayout, file); err == nil {
		return rollupName{t.Unix(), rollupHour}, true
	}
	if t, err := time.Parse(dayLayout, file); err == nil {
		return rollupName{t.Unix(), rollupDay}, true
	}
	return rollupName{}, false
}

func (n rollupName) begin() time.Time { return time.Unix(n.start, 0).UTC() }
func (n rollupName) end() time.Time   { return n.begin().Add(n.span) }

func (n rollupName) compare(o rollupName) int {
	return cmp.Or(cmp.Compare(n.start, o.start), cmp.Compare(n.span, o.span))
}

// hourAge is how long hours are kept beside the days that were made of them.
const hourAge = 8 * 24 * time.Hour

// A rollupState is what the directory says of itself.
type rollupState struct {
	Epoch   string   `json:"epoch"`   // tells this directory from others that the same gateway had
	Shipped []string `json:"shipped"` // files that the bucket has
}

const rollupStateName = "rollups.json"

// A rollupStore makes rollups out of samples, keeps them and ships them. An hour is made once, from the
// samples of the database, when none can be added to it any more; a process that ends before its
// file is there makes the same one again, as the samples do not change. So it does not matter
// when counters were reset, or who was evicted: the samples tell it all, and nothing but they
// has to survive.
type rollupStore struct {
	dir     string
	labels  map[string]string
	age     time.Duration // of days; hours go after hourAge
	shipper *shipper
	kept    *localstate.Store
	now     func() time.Time
	log     *slog.Logger
	db      *database // set before the first hour is made
	base    int64     // of the instance; set as db

	made, failures, bytes atomic.Int64

	newest  atomic.Int64 // milliseconds of the newest sample before done; 0: unknown
	working sync.Mutex   // one at a time makes, ships and deletes
	owed    owed         // under working: by the hour before done

	mu    sync.Mutex
	state rollupState          // under mu
	files map[rollupName]int64 // under mu: bytes of each
	done  time.Time            // under mu: all hours before it were made; zero: none
}

// openRollups lists what there is in a directory.
func openRollups(dir string, labels map[string]string, age time.Duration, s *shipper, kept *localstate.Store, now func() time.Time, log *slog.Logger) (*rollupStore, error) {
	r := &rollupStore{dir: dir, labels: labels, age: age, shipper: s, kept: kept, now: now, log: log, files: make(map[rollupName]int64)}
	if err := kept.Dir(dir, localstate.File{Piece: rollupsPiece}); err != nil {
		return nil, fmt.Errorf("create rollup directory: %w", err)
	}
	if err := r.readState(); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(dir)
	if err != nil {
		return nil, fmt.Errorf("list rollups: %w", err)
	}
	var newest rollupName
	for _, e := range entries {
		n, ok := parseRollupName(e.Name())
		if !ok {
			continue
		}
		size, err := r.check(n)
		if err != nil {
			kept.SetAside(filepath.Join(dir, e.Name()), rollupPiece, err)
			continue
		}
		r.files[n] = size
		r.bytes.Add(size)
		if n.end().After(r.done) {
			r.done, newest = n.end(), n
		}
	}
	if newest.span != 0 {
		r.resume(newest)
	}
	r.record()
	return r, nil
}

// check opens a file and returns its size. What it does not read is checked when it is read.
func (r *rollupStore) check(n rollupName) (int64, error) {
	if !localstate.IsFile(filepath.Join(r.dir, n.String())) {
		return 0, localstate.ErrNotFile
	}
	f, err := r.open(n)
	if err != nil {
		return 0, err
	}
	info, err := f.file.Stat()
	if err = errors.Join(err, f.close()); err != nil {
		return 0, err
	}
	return info.Size(), nil
}

// record updates the record of the files that exist.
func (r *rollupStore) record() {
	files := make(map[string]localstate.File)
	for _, n := range r.list(func(rollupName) bool { return true }) {
		files[filepath.Join(r.dir, n.String())] = localstate.File{Piece: rollupPiece}
	}
	files[filepath.Join(r.dir, rollupStateName)] = localstate.File{Piece: rollupStatePiece}
	r.kept.Replace(r.dir, files)
}

// resume goes on after the newest file. Where it cannot be read, more samples are.
func (r *rollupStore) resume(newest rollupName) {
	hours := r.list(func(n rollupName) bool { return n.span == rollupHour && n.end().Equal(newest.end()) })
	f, err := r.open(append(hours, newest)[0])
	if err != nil {
		return
	}
	defer func() { _ = f.close() }() // it was only read
	if r.owed.counts, r.owed.spread, err = f.counts(colOwed); err == nil {
		r.newest.Store(f.last)
	}
}

func (r *rollupStore) readState() error {
	name := filepath.Join(r.dir, rollupStateName)
	text, err := os.ReadFile(name)
	if err == nil {
		if err = json.Unmarshal(text, &r.state); err == nil {
			if _, err = ulid.Parse(r.state.Epoch); err == nil {
				return nil
			}
		}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		r.kept.SetAside(name, rollupStatePiece, err)
	}
	r.state = rollupState{Epoch: ulid.Make().String()}
	return r.writeState()
}

func (r *rollupStore) writeState() error {
	text, err := json.Marshal(r.state)
	if err == nil {
		err = writeFile(filepath.Join(r.dir, rollupStateName), text)
	}
	if err != nil {
		return fmt.Errorf("note the state of rollups: %w", err)
	}
	return nil
}

// until is the time before which all hours were made.
func (r *rollupStore) until() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.done
}

// A localRollup is an open file.
type localRollup struct {
	*rollupFile
	file *os.File
}

func (l *localRollup) close() error { return l.file.Close() }

// open opens a file of the directory.
func (r *rollupStore) open(n rollupName) (*localRollup, error) {
	file, err := os.Open(filepath.Join(r.dir, n.String()))
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	var f *rollupFile
	if err == nil {
		f, err = openRollup(file, info.Size())
	}
	if err == nil && (f.start.Unix() != n.start || f.span != n.span) {
		err = badRollup("it is of another time than its name says")
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open rollup %s: %w", n, err), file.Close())
	}
	return &localRollup{f, file}, nil
}

// work makes what can be made of samples up to settled, which there will be no more of, ships it
// and deletes what is too old.
func (r *rollupStore) work(ctx context.Context, settled int64) error {
	r.working.Lock()
	defer r.working.Unlock()
	err := r.hours(ctx, settled)
	if err == nil {
		err = r.days()
	}
	if err != nil {
		r.failures.Add(1)
	}
	if ctx.Err() != nil {
		return err
	}
	return errors.Join(err, r.ship(ctx), r.expire())
}

// hours makes each hour that is over.
func (r *rollupStore) hours(ctx context.Context, settled int64) error {
	hour := r.until()
	if hour.IsZero() {
		start := localStart(r.db.current())
		if start > settled {
			return nil
		}
		hour = time.UnixMilli(start).UTC().Truncate(rollupHour)
	}
	for ; hour.Add(rollupHour).UnixMilli() <= settled && ctx.Err() == nil; hour = hour.Add(rollupHour) {
		since := localStart(r.db.current())
		if newest := r.newest.Load(); newest > 0 {
			since = newest - baseMargin.Milliseconds()
		}
		up, err := deriveHour(ctx, r.db, hour, since, r.base, r.owed)
		if err != nil {
			return fmt.Errorf("make the rollup of %s: %w", hour.Format(time.RFC3339), err)
		}
		if up != nil {
			if err := r.write(up); err != nil {
				return err
			}
			r.newest.Store(up.last)
			r.owed = up.owed
		}
		if next := nextTime(r.db.current(), hour.Add(rollupHour).UnixMilli()); up == nil && next > hour.Add(2*rollupHour).UnixMilli() {
			// The clock was set forward: nothing is written of hours without samples.
			hour = time.UnixMilli(min(next, settled)).UTC().Truncate(rollupHour).Add(-rollupHour)
		}
		r.mu.Lock()
		r.done = hour.Add(rollupHour)
		r.mu.Unlock()
	}
	return nil
}

// nextTime returns a time up to which the database has no samples from the given one on, in milliseconds;
// math.MaxInt64 when it has none later.
func nextTime(db *tsdb.DB, from int64) int64 {
	next := int64(math.MaxInt64)
	if head := db.Head(); head.NumSeries() > 0 && head.MaxTime() >= from {
		next = max(head.MinTime(), from)
	}
	for _, m := range db.BlockMetas() {
		if m.MaxTime > from {
			next = min(next, max(m.MinTime, from))
		}
	}
	return next
}

// write makes a file, whole or not at all.
func (r *rollupStore) write(up *rollup) error {
	up.labels = r.labels
	n := rollupName{up.start.Unix(), up.span}
	text, err := up.encode()
	if err == nil {
		err = writeFile(filepath.Join(r.dir, n.String()), text)
	}
	if err != nil {
		return fmt.Errorf("write rollup %s: %w", n, err)
	}
	r.mu.Lock()
	r.bytes.Add(int64(len(text)) - r.files[n])
	r.files[n] = int64(len(text))
	r.mu.Unlock()
	r.made.Add(1)
	r.record()
	return nil
}

// list returns the files that keep wants, in order.
func (r *rollupStore) list(keep func(rollupName) bool) []rollupName {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []rollupName
	for n := range r.files {
		if keep(n) {
			names = append(names, n)
		}
	}
	slices.SortFunc(names, rollupName.compare)
	return names
}

// first returns the start of the oldest file, in Unix seconds; math.MaxInt64 when there is none.
func (r *rollupStore) first() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := int64(math.MaxInt64)
	for n := range r.files {
		first = min(first, n.start)
	}
	return first
}

// size returns the bytes of a file; 0 when there is none.
func (r *rollupStore) size(n rollupName) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.files[n]
}

func (r *rollupStore) has(n rollupName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.files[n]
	return ok
}

// days makes each day that is over out of its hours. A day with an hour that cannot be read, or that was
// shipped and is missing, is not made: its hours and samples are read instead.
func (r *rollupStore) days() error {
	done := r.until()
	hours := r.list(func(n rollupName) bool { return n.span == rollupHour })
	for len(hours) > 0 {
		day := rollupName{hours[0].begin().Truncate(rollupDay).Unix(), rollupDay}
		n := 0
		for n < len(hours) && hours[n].start < day.end().Unix() {
			n++
		}
		of := hours[:n]
		hours = hours[n:]
		if day.end().After(done) || r.has(day) || r.lacks(day) {
			continue
		}
		up, err := r.mergeHours(day.begin(), of)
		if err != nil {
			r.log.Error("daily rollup failed; using its hours", "day", day.String(), "error", err)
			continue
		}
		if err := r.write(up); err != nil {
			return err
		}
	}
	return nil
}

// lacks reports whether an hour of the day was shipped and is missing.
func (r *rollupStore) lacks(day rollupName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.state.Shipped, func(file string) bool {
		n, ok := parseRollupName(file)
		_, here := r.files[n]
		return ok && !here && n.span == rollupHour && n.start >= day.start && n.start < day.end().Unix()
	})
}

func (r *rollupStore) mergeHours(day time.Time, names []rollupName) (*rollup, error) {
	var hours []*rollup
	var u unzipper
	defer u.close()
	for _, n := range names {
		f, err := r.open(n)
		if err != nil {
			return nil, err
		}
		up, err := f.read(&u)
		if err = errors.Join(err, f.close()); err != nil {
			return nil, fmt.Errorf("read rollup %s: %w", n, err)
		}
		hours = append(hours, up)
	}
	return mergeDay(day, hours)
}

// shipped says whether the bucket has a file.
func (r *rollupStore) shipped(n rollupName) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.state.Shipped, n.String())
}

// ship copies what the bucket does not have: a file has one name and one content, so that whatever was done of
// it before may be done again. It is compared before it is noted.
func (r *rollupStore) ship(ctx context.Context) error {
	var errs []error
	for _, n := range r.list(func(rollupName) bool { return true }) {
		if ctx.Err() != nil || r.shipped(n) {
			continue
		}
		if err := r.shipFile(ctx, n); err != nil {
			errs = append(errs, fmt.Errorf("ship rollup %s: %w", n, err))
		}
	}
	return errors.Join(errs...)
}

func (r *rollupStore) shipFile(ctx context.Context, n rollupName) error {
	text, err := os.ReadFile(filepath.Join(r.dir, n.String()))
	if err != nil {
		return err
	}
	// What cannot be read would only be spread.
	f, err := openRollup(bytes.NewReader(text), int64(len(text)))
	if err == nil {
		var u unzipper
		_, err = f.read(&u)
		u.close()
	}
	if err != nil {
		return err
	}
	if err := r.shipper.bytes(ctx, r.object(n), text); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.state.Shipped
	r.state.Shipped = append(slices.Clone(before), n.String())
	if err := r.writeState(); err != nil {
		r.state.Shipped = before
		return err
	}
	return nil
}

// object is a file's name in the bucket.
func (r *rollupStore) object(n rollupName) string {
	return strings.Join([]string{rollupPrefix, labelsHash(r.labels), r.state.Epoch, n.String()}, "/")
}

// expire deletes what is too old. Hours are kept until their day is made.
func (r *rollupStore) expire() error {
	now := r.now()
	var errs []error
	gone := r.list(func(n rollupName) bool {
		age := now.Sub(n.end())
		if n.span == rollupHour {
			day := rollupName{n.begin().Truncate(rollupDay).Unix(), rollupDay}
			_, made := r.files[day]
			return age > r.age || age > hourAge && made && slices.Contains(r.state.Shipped, n.String())
		}
		return age > r.age
	})
	for _, n := range gone {
		if !r.shipped(n) {
			r.log.Error("a rollup is deleted that is not in the bucket, as it is older than is kept", "rollup", n.String())
		}
		r.kept.Forget(filepath.Join(r.dir, n.String()))
		if err := os.Remove(filepath.Join(r.dir, n.String())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("delete rollup %s: %w", n, err))
			continue
		}
		r.mu.Lock()
		r.bytes.Add(-r.files[n])
		delete(r.files, n)
		r.state.Shipped = slices.DeleteFunc(r.state.Shipped, func(name string) bool { return name == n.String() })
		r.mu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.state.Shipped)
	r.state.Shipped = slices.DeleteFunc(r.state.Shipped, func(file string) bool {
		n, ok := parseRollupName(file)
		_, here := r.files[n]
		return ok && !here && now.Sub(n.end()) > r.age
	})
	if len(gone) > 0 || len(r.state.Shipped) != before {
		errs = append(errs, r.writeState())
	}
	return errors.Join(errs...)
}
