package history

import (
	"bytes"
	"cmp"
	"context"
	"encoding/json"
	"errors"
	"fmt"
	"io"
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

// baseMargin is how long before the newest sample of a process each of its series has one for sure.
const baseMargin = 10 * time.Minute

var (
	rollupsPiece     = localstate.Piece{Name: "rollups", Lost: "local rollups: pages read hours that have samples from these"}
	rollupPiece      = localstate.Piece{Name: "rollup", Lost: "the local rollup of this hour or day, unless its samples are still local"}
	rollupStatePiece = localstate.Piece{Name: "rollup state", Lost: "which rollups were shipped: all local ones are shipped again"}
)

// A rollupState is what the directory says of itself.
type rollupState struct {
	Epoch   string   `json:"epoch"`   // tells this directory from others that the same gateway had
	Shipped []string `json:"shipped"` // files that the bucket has
}

const rollupStateName = "rollups.json"

// An hourSource derives the rollups of hours from samples.
type hourSource interface {
	Start() int64          // Unix milliseconds of the oldest sample
	Next(from int64) int64 // there are no samples between these times; math.MaxInt64: none later

	// Derive returns the rollup of the hour from start, or nil if the hour has no samples. It needs no samples older than
	// since. before holds the counts that the hour before left.
	Derive(ctx context.Context, start time.Time, since int64, before owed) (*rollup, error)
}

// rollupOptions are those of a rollupStore.
type rollupOptions struct {
	dir    string
	labels map[string]string
	age    time.Duration                                                  // of days; hours are deleted after hourAge
	upload func(ctx context.Context, object string, content []byte) error // uploads an object and compares it
	state  *localstate.Store
	now    func() time.Time
	log    *slog.Logger
}

// A rollupStore derives rollups from samples, keeps them in a directory and ships them. An hour is derived once, when no
// samples can be added to it any more. A process that is killed before the file exists derives the same one again.
type rollupStore struct {
	rollupOptions

	made, failures, bytes atomic.Int64

	newest  atomic.Int64 // milliseconds of the newest sample before done; 0: unknown
	working sync.Mutex   // derives, ships and deletes
	owed    owed         // under working: by the hour before done

	mu    sync.Mutex
	known rollupState          // under mu
	files map[rollupName]int64 // under mu: bytes of each
	done  time.Time            // under mu: all hours before it were derived; zero: none
}

// openRollups lists what there is in a directory.
func openRollups(o rollupOptions) (*rollupStore, error) {
	r := &rollupStore{rollupOptions: o, files: make(map[rollupName]int64)}
	if err := r.state.Dir(r.dir, localstate.File{Piece: rollupsPiece}); err != nil {
		return nil, fmt.Errorf("create rollup directory: %w", err)
	}
	if err := r.readState(); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(r.dir)
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
			r.state.SetAside(filepath.Join(r.dir, e.Name()), rollupPiece, err)
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
	return f.size, f.close()
}

// record updates the record of the files that exist.
func (r *rollupStore) record() {
	files := make(map[string]localstate.File)
	for _, n := range r.list(func(rollupName) bool { return true }) {
		files[filepath.Join(r.dir, n.String())] = localstate.File{Piece: rollupPiece}
	}
	files[filepath.Join(r.dir, rollupStateName)] = localstate.File{Piece: rollupStatePiece}
	r.state.Replace(r.dir, files)
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
		if err = json.Unmarshal(text, &r.known); err == nil {
			if _, err = ulid.Parse(r.known.Epoch); err == nil {
				return nil
			}
		}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		r.state.SetAside(name, rollupStatePiece, err)
	}
	r.known = rollupState{Epoch: ulid.Make().String()}
	return r.writeState()
}

func (r *rollupStore) writeState() error {
	text, err := json.Marshal(r.known)
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

// open opens a file of the directory.
func (r *rollupStore) open(n rollupName) (*rollupFile, error) {
	file, err := os.Open(filepath.Join(r.dir, n.String()))
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	var f *rollupFile
	if err == nil {
		f, err = n.open(file, info.Size())
	}
	if err != nil {
		return nil, errors.Join(fmt.Errorf("open rollup %s: %w", n, err), file.Close())
	}
	f.closer = file
	return f, nil
}

// open opens the file with the name.
func (n rollupName) open(at io.ReaderAt, size int64) (*rollupFile, error) {
	f, err := openRollup(at, size)
	if err == nil && (f.start.Unix() != n.start || f.span != n.span) {
		err = badRollup("it is of another time than its name says")
	}
	return f, err
}

// work derives rollups from the samples up to settled, which are complete, ships them and deletes those that are too old.
func (r *rollupStore) work(ctx context.Context, samples hourSource, settled int64) error {
	r.working.Lock()
	defer r.working.Unlock()
	err := r.hours(ctx, samples, settled)
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

// hours derives the rollup of each hour that is over.
func (r *rollupStore) hours(ctx context.Context, samples hourSource, settled int64) error {
	hour := r.until()
	if hour.IsZero() {
		start := samples.Start()
		if start > settled {
			return nil
		}
		hour = time.UnixMilli(start).UTC().Truncate(rollupHour)
	}
	for ; hour.Add(rollupHour).UnixMilli() <= settled && ctx.Err() == nil; hour = hour.Add(rollupHour) {
		since := samples.Start()
		if newest := r.newest.Load(); newest > 0 {
			since = newest - baseMargin.Milliseconds()
		}
		up, err := samples.Derive(ctx, hour, since, r.owed)
		if err != nil {
			return fmt.Errorf("make the rollup of %s: %w", hour.Format(time.RFC3339), err)
		}
		if up != nil {
			if err := r.write(up); err != nil {
				return err
			}
			continue
		}
		if next := samples.Next(hour.Add(rollupHour).UnixMilli()); next > hour.Add(2*rollupHour).UnixMilli() {
			// The clock was set forward: no rollups are written of hours without samples.
			hour = time.UnixMilli(min(next, settled)).UTC().Truncate(rollupHour).Add(-rollupHour)
		}
		r.mu.Lock()
		r.done = hour.Add(rollupHour)
		r.mu.Unlock()
	}
	return nil
}

// write writes a file atomically. After an hour, the next one is derived.
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
	if n.span == rollupHour {
		r.done, r.owed = n.end(), up.owed
		r.newest.Store(up.last)
	}
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
	return slices.ContainsFunc(r.known.Shipped, func(file string) bool {
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
	return slices.Contains(r.known.Shipped, n.String())
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
	if err := r.upload(ctx, r.object(n), text); err != nil {
		return err
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before := r.known.Shipped
	r.known.Shipped = append(slices.Clone(before), n.String())
	if err := r.writeState(); err != nil {
		r.known.Shipped = before
		return err
	}
	return nil
}

// object is a file's name in the bucket.
func (r *rollupStore) object(n rollupName) string {
	return strings.Join([]string{rollupPrefix, labelsHash(r.labels), r.known.Epoch, n.String()}, "/")
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
			return age > r.age || age > hourAge && made && slices.Contains(r.known.Shipped, n.String())
		}
		return age > r.age
	})
	for _, n := range gone {
		if !r.shipped(n) {
			r.log.Error("a rollup is deleted that is not in the bucket, as it is older than is kept", "rollup", n.String())
		}
		r.state.Forget(filepath.Join(r.dir, n.String()))
		if err := os.Remove(filepath.Join(r.dir, n.String())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("delete rollup %s: %w", n, err))
			continue
		}
		r.mu.Lock()
		r.bytes.Add(-r.files[n])
		delete(r.files, n)
		r.known.Shipped = slices.DeleteFunc(r.known.Shipped, func(name string) bool { return name == n.String() })
		r.mu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.known.Shipped)
	r.known.Shipped = slices.DeleteFunc(r.known.Shipped, func(file string) bool {
		n, ok := parseRollupName(file)
		_, here := r.files[n]
		return ok && !here && now.Sub(n.end()) > r.age
	})
	if len(gone) > 0 || len(r.known.Shipped) != before {
		errs = append(errs, r.writeState())
	}
	return errors.Join(errs...)
}
