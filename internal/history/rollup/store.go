package rollup

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

// A Name identifies a rollup among those of one directory.
type Name struct {
	Start int64 // Unix seconds
	Span  time.Duration
}

const (
	rollupSuffix = ".rollup"
	hourLayout   = "hour-2006-01-02T15" + rollupSuffix
	dayLayout    = "day-2006-01-02" + rollupSuffix
)

// String returns the name of the file.
func (n Name) String() string {
	layout := hourLayout
	if n.Span == Day {
		layout = dayLayout
	}
	return time.Unix(n.Start, 0).UTC().Format(layout)
}

// ParseName parses the name of a file.
func ParseName(file string) (Name, bool) {
	if t, err := time.Parse(hourLayout, file); err == nil {
		return Name{t.Unix(), Hour}, true
	}
	if t, err := time.Parse(dayLayout, file); err == nil {
		return Name{t.Unix(), Day}, true
	}
	return Name{}, false
}

// Begin returns the start of the range.
func (n Name) Begin() time.Time { return time.Unix(n.Start, 0).UTC() }

// End returns the end of the range.
func (n Name) End() time.Time { return n.Begin().Add(n.Span) }

// Compare orders names by time, hours before days.
func (n Name) Compare(o Name) int {
	return cmp.Or(cmp.Compare(n.Start, o.Start), cmp.Compare(n.Span, o.Span))
}

// HourAge is how long hours are kept in addition to their merged days.
const HourAge = 8 * 24 * time.Hour

// BaseMargin is a time before the newest sample of a process in which each of its series has a sample.
const BaseMargin = 10 * time.Minute

var (
	dirPiece   = localstate.Piece{Name: "rollups", Lost: "local rollups: pages read hours that have samples from these"}
	filePiece  = localstate.Piece{Name: "rollup", Lost: "the local rollup of this hour or day, unless its samples are still local"}
	statePiece = localstate.Piece{Name: "rollup state", Lost: "which rollups were shipped: all local ones are shipped again"}
)

// A storeState is the recorded state of a directory.
type storeState struct {
	Version int      `json:"version"` // stateVersion
	Epoch   string   `json:"epoch"`   // distinguishes this directory from earlier ones of the same gateway
	Shipped []string `json:"shipped"` // files that the bucket has
}

const (
	stateName    = "rollups.json"
	stateVersion = 1
)

// An HourSource derives the rollups of hours from samples.
type HourSource interface {
	Start() int64          // Unix milliseconds of the oldest sample
	Next(from int64) int64 // the time of the next samples at or after from; math.MaxInt64: none

	// Derive returns the rollup of the hour from start, or nil if the hour has no samples. It needs no
	// samples older than since. before has the counts carried over from the previous hour.
	Derive(ctx context.Context, start time.Time, since int64, before Carry) (*Rollup, error)
}

// StoreOptions configure a Store.
type StoreOptions struct {
	Dir    string
	Labels map[string]string
	Age    time.Duration                                                  // of days; hours are deleted after HourAge
	Upload func(ctx context.Context, object string, content []byte) error // uploads an object and compares it
	Space  func(bytes int64) error                                        // returns an error if there is no space for a file
	State  *localstate.Store
	Now    func() time.Time
	Log    *slog.Logger
}

// A Store derives rollups from samples, stores them in a directory and ships them. An hour is derived once,
// when no samples can be added to it any more. A process that is killed before the file exists derives the
// same file again.
type Store struct {
	StoreOptions

	Made, Failures, Bytes atomic.Int64

	Newest  atomic.Int64 // milliseconds of the newest sample before done; 0: unknown
	working sync.Mutex   // locked while deriving, shipping and deleting
	carry   Carry        // under working: of the hour before done

	mu    sync.Mutex
	known storeState     // under mu
	files map[Name]int64 // under mu: bytes of each
	done  time.Time      // under mu: all hours before it were derived; zero: none
}

// OpenStore opens the store in a directory.
func OpenStore(o StoreOptions) (*Store, error) {
	r := &Store{StoreOptions: o, files: make(map[Name]int64)}
	if err := r.State.Dir(r.Dir, localstate.File{Piece: dirPiece}); err != nil {
		return nil, fmt.Errorf("create rollup directory: %w", err)
	}
	if err := r.readState(); err != nil {
		return nil, err
	}
	entries, err := os.ReadDir(r.Dir)
	if err != nil {
		return nil, fmt.Errorf("list rollups: %w", err)
	}
	var newest Name
	for _, e := range entries {
		n, ok := ParseName(e.Name())
		if !ok {
			continue
		}
		size, err := r.check(n)
		if err != nil {
			r.State.SetAside(filepath.Join(r.Dir, e.Name()), filePiece, err)
			continue
		}
		r.files[n] = size
		r.Bytes.Add(size)
		if n.End().After(r.done) {
			r.done, newest = n.End(), n
		}
	}
	if newest.Span != 0 {
		r.resume(newest)
	}
	r.record()
	return r, nil
}

// check opens a file and returns its size. The content is verified when it is read.
func (r *Store) check(n Name) (int64, error) {
	if !localstate.IsFile(filepath.Join(r.Dir, n.String())) {
		return 0, localstate.ErrNotFile
	}
	f, err := r.Open(n)
	if err != nil {
		return 0, err
	}
	return f.size, f.Close()
}

// record updates the record of the files that exist.
func (r *Store) record() {
	files := make(map[string]localstate.File)
	for _, n := range r.List(func(Name) bool { return true }) {
		files[filepath.Join(r.Dir, n.String())] = localstate.File{Piece: filePiece}
	}
	files[filepath.Join(r.Dir, stateName)] = localstate.File{Piece: statePiece}
	r.State.Replace(r.Dir, files)
}

// resume continues after the newest file. If that file cannot be read, more samples are read.
func (r *Store) resume(newest Name) {
	hours := r.List(func(n Name) bool { return n.Span == Hour && n.End().Equal(newest.End()) })
	f, err := r.Open(append(hours, newest)[0])
	if err != nil {
		return
	}
	defer func() { _ = f.Close() }() // it was only read
	if r.carry.Counts, r.carry.Spread, err = f.countsOf(colOwed); err == nil {
		r.Newest.Store(f.Last)
	}
}

func (r *Store) readState() error {
	name := filepath.Join(r.Dir, stateName)
	text, err := localstate.ReadFile(name)
	if err == nil {
		if err = json.Unmarshal(text, &r.known); err == nil {
			if _, err = ulid.Parse(r.known.Epoch); err == nil && r.known.Version > stateVersion {
				err = fmt.Errorf("of version %d, want at most %d", r.known.Version, stateVersion)
			}
			if err == nil {
				return nil
			}
		}
	}
	if !errors.Is(err, fs.ErrNotExist) {
		r.State.SetAside(name, statePiece, err)
	}
	r.known = storeState{Epoch: ulid.Make().String()}
	return r.writeState()
}

func (r *Store) writeState() error {
	r.known.Version = stateVersion
	text, err := json.Marshal(r.known)
	if err == nil {
		err = localstate.WriteFile(filepath.Join(r.Dir, stateName), text)
	}
	if err != nil {
		return fmt.Errorf("note the state of rollups: %w", err)
	}
	return nil
}

// Epoch identifies the directory among those of the same gateway.
func (r *Store) Epoch() string { return r.known.Epoch }

// Until returns the time before which all hours were derived.
func (r *Store) Until() time.Time {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.done
}

// Open opens a file of the directory.
func (r *Store) Open(n Name) (*File, error) {
	file, err := os.Open(filepath.Join(r.Dir, n.String()))
	if err != nil {
		return nil, err
	}
	info, err := file.Stat()
	var f *File
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
func (n Name) open(at io.ReaderAt, size int64) (*File, error) {
	f, err := Open(at, size)
	if err == nil && (f.Start.Unix() != n.Start || f.Span != n.Span) {
		err = FormatErrorf("it is of another time than its name says")
	}
	return f, err
}

// Work derives rollups from the samples up to settled, which are complete, ships them and deletes old ones.
func (r *Store) Work(ctx context.Context, samples HourSource, settled int64) error {
	r.working.Lock()
	defer r.working.Unlock()
	err := r.hours(ctx, samples, settled)
	if err == nil {
		err = r.days()
	}
	if err != nil {
		r.Failures.Add(1)
	}
	if ctx.Err() != nil {
		return err
	}
	return errors.Join(err, r.ship(ctx), r.expire())
}

// hours derives the rollup of each complete hour.
func (r *Store) hours(ctx context.Context, samples HourSource, settled int64) error {
	hour := r.Until()
	if hour.IsZero() {
		start := samples.Start()
		if start > settled {
			return nil
		}
		hour = time.UnixMilli(start).UTC().Truncate(Hour)
	}
	for ; hour.Add(Hour).UnixMilli() <= settled && ctx.Err() == nil; hour = hour.Add(Hour) {
		since := samples.Start()
		if newest := r.Newest.Load(); newest > 0 {
			since = newest - BaseMargin.Milliseconds()
		}
		up, err := samples.Derive(ctx, hour, since, r.carry)
		if err != nil {
			return fmt.Errorf("make the rollup of %s: %w", hour.Format(time.RFC3339), err)
		}
		if up != nil {
			if err := r.Write(up); err != nil {
				return err
			}
			continue
		}
		if next := samples.Next(hour.Add(Hour).UnixMilli()); next > hour.Add(2*Hour).UnixMilli() {
			// The clock was set forward: hours without samples have no rollups.
			hour = time.UnixMilli(min(next, settled)).UTC().Truncate(Hour).Add(-Hour)
		}
		r.mu.Lock()
		r.done = hour.Add(Hour)
		r.mu.Unlock()
	}
	return nil
}

// Write writes a file atomically. After an hour, the next one is derived.
func (r *Store) Write(up *Rollup) error {
	up.Labels = r.Labels
	n := Name{up.Start.Unix(), up.Span}
	text, err := up.Encode()
	if err == nil && r.Space != nil {
		err = r.Space(int64(len(text)))
	}
	if err == nil {
		err = localstate.WriteFile(filepath.Join(r.Dir, n.String()), text)
	}
	if err != nil {
		return fmt.Errorf("write rollup %s: %w", n, err)
	}
	r.mu.Lock()
	r.Bytes.Add(int64(len(text)) - r.files[n])
	r.files[n] = int64(len(text))
	if n.Span == Hour {
		r.done, r.carry = n.End(), up.Carry
		r.Newest.Store(up.Last)
	}
	r.mu.Unlock()
	r.Made.Add(1)
	r.record()
	return nil
}

// List returns the files for which keep returns true, in order. keep must not call the store.
func (r *Store) List(keep func(Name) bool) []Name {
	r.mu.Lock()
	defer r.mu.Unlock()
	var names []Name
	for n := range r.files {
		if keep(n) {
			names = append(names, n)
		}
	}
	slices.SortFunc(names, Name.Compare)
	return names
}

// First returns the start of the oldest file, in Unix seconds; math.MaxInt64 if there is none.
func (r *Store) First() int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	first := int64(math.MaxInt64)
	for n := range r.files {
		first = min(first, n.Start)
	}
	return first
}

// Size returns the bytes of a file; 0 if there is none.
func (r *Store) Size(n Name) int64 {
	r.mu.Lock()
	defer r.mu.Unlock()
	return r.files[n]
}

func (r *Store) has(n Name) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	_, ok := r.files[n]
	return ok
}

// days merges the hours of each complete day. A day with an hour that cannot be read, or that was shipped and
// is missing, is not merged: its hours and samples are read instead.
func (r *Store) days() error {
	done := r.Until()
	hours := r.List(func(n Name) bool { return n.Span == Hour })
	for len(hours) > 0 {
		day := Name{hours[0].Begin().Truncate(Day).Unix(), Day}
		n := 0
		for n < len(hours) && hours[n].Start < day.End().Unix() {
			n++
		}
		of := hours[:n]
		hours = hours[n:]
		if day.End().After(done) || r.has(day) || r.lacks(day) {
			continue
		}
		up, err := r.mergeHours(day.Begin(), of)
		if err != nil {
			r.Log.Error("daily rollup failed; using its hours", "day", day.String(), "error", err)
			continue
		}
		if err := r.Write(up); err != nil {
			return err
		}
	}
	return nil
}

// lacks reports whether an hour of the day was shipped and is missing.
func (r *Store) lacks(day Name) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.ContainsFunc(r.known.Shipped, func(file string) bool {
		n, ok := ParseName(file)
		_, here := r.files[n]
		return ok && !here && n.Span == Hour && n.Start >= day.Start && n.Start < day.End().Unix()
	})
}

func (r *Store) mergeHours(day time.Time, names []Name) (*Rollup, error) {
	var hours []*Rollup
	var u TextDecoder
	defer u.Close()
	for _, n := range names {
		f, err := r.Open(n)
		if err != nil {
			return nil, err
		}
		up, err := f.Read(&u)
		if err = errors.Join(err, f.Close()); err != nil {
			return nil, fmt.Errorf("read rollup %s: %w", n, err)
		}
		hours = append(hours, up)
	}
	return mergeDay(day, hours)
}

// Shipped reports whether the bucket has a file.
func (r *Store) Shipped(n Name) bool {
	r.mu.Lock()
	defer r.mu.Unlock()
	return slices.Contains(r.known.Shipped, n.String())
}

// ship uploads the files that the bucket lacks. A file has one name and one content, so that an upload may be
// repeated. It is compared before it is recorded.
func (r *Store) ship(ctx context.Context) error {
	var errs []error
	for _, n := range r.List(func(Name) bool { return true }) {
		if ctx.Err() != nil || r.Shipped(n) {
			continue
		}
		if err := r.shipFile(ctx, n); err != nil {
			errs = append(errs, fmt.Errorf("ship rollup %s: %w", n, err))
		}
	}
	return errors.Join(errs...)
}

func (r *Store) shipFile(ctx context.Context, n Name) error {
	text, err := os.ReadFile(filepath.Join(r.Dir, n.String()))
	if err != nil {
		return err
	}
	// A damaged file is not uploaded.
	f, err := Open(bytes.NewReader(text), int64(len(text)))
	if err == nil {
		var u TextDecoder
		_, err = f.Read(&u)
		u.Close()
	}
	if err != nil {
		return err
	}
	if err := r.Upload(ctx, r.Object(n), text); err != nil {
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

// Object returns the name of a file in the bucket.
func (r *Store) Object(n Name) string {
	return strings.Join([]string{Prefix, LabelsHash(r.Labels), r.known.Epoch, n.String()}, "/")
}

// expire deletes old files. Hours are kept until their day is merged.
func (r *Store) expire() error {
	now := r.Now()
	var errs []error
	gone := r.List(func(n Name) bool {
		age := now.Sub(n.End())
		if n.Span == Hour {
			day := Name{n.Begin().Truncate(Day).Unix(), Day}
			_, made := r.files[day]
			return age > r.Age || age > HourAge && made && slices.Contains(r.known.Shipped, n.String())
		}
		return age > r.Age
	})
	for _, n := range gone {
		if !r.Shipped(n) {
			r.Log.Error("a rollup is deleted that is not in the bucket, as it is older than is kept", "rollup", n.String())
		}
		r.State.Forget(filepath.Join(r.Dir, n.String()))
		if err := os.Remove(filepath.Join(r.Dir, n.String())); err != nil && !errors.Is(err, fs.ErrNotExist) {
			errs = append(errs, fmt.Errorf("delete rollup %s: %w", n, err))
			continue
		}
		r.mu.Lock()
		r.Bytes.Add(-r.files[n])
		delete(r.files, n)
		r.known.Shipped = slices.DeleteFunc(r.known.Shipped, func(name string) bool { return name == n.String() })
		r.mu.Unlock()
	}
	r.mu.Lock()
	defer r.mu.Unlock()
	before := len(r.known.Shipped)
	r.known.Shipped = slices.DeleteFunc(r.known.Shipped, func(file string) bool {
		n, ok := ParseName(file)
		_, here := r.files[n]
		return ok && !here && now.Sub(n.End()) > r.Age
	})
	if len(gone) > 0 || len(r.known.Shipped) != before {
		errs = append(errs, r.writeState())
	}
	return errors.Join(errs...)
}
