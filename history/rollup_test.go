package history

import (
	"bytes"
	"encoding/binary"
	"errors"
	"fmt"
	"hash/crc32"
	"io"
	"log/slog"
	"math"
	"math/rand/v2"
	"os"
	"path/filepath"
	"slices"
	"strings"
	"testing"
	"time"

	"github.com/google/go-cmp/cmp"
	"github.com/thanos-io/objstore"

	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/stmtstats"
)

var rollupStart = time.Date(2026, 3, 1, 10, 0, 0, 0, time.UTC)

// randomRollup is one with so many rows.
func randomRollup(rng *rand.Rand, start time.Time, rows int) *rollup {
	r := &rollup{start: start, span: rollupHour, last: start.UnixMilli() + 12345, labels: map[string]string{"instance": "gw-1"}}
	add := func(row rollupRow) {
		var h stmtstats.Histogram
		for range 1 + rng.IntN(20) {
			h.Record(time.Duration(rng.ExpFloat64() * float64(10*time.Millisecond)))
		}
		row.counts = counts{
			calls: h.Count(), nanos: h.Nanos, rowsSent: rng.Uint64N(1 << rng.IntN(40)), rowsAffected: rng.Uint64N(9), bytesSent: rng.Uint64N(1e6),
		}
		if rng.IntN(4) == 0 {
			row.counts.errors[rng.IntN(stmtstats.ErrorClasses)] = rng.Uint64N(300)
		}
		row.spread = h.AppendSpread(nil)
		row.last = start.UnixMilli() + rng.Int64N(3600_000)
		if rng.IntN(2) == 0 {
			row.first = start.UnixMilli() + rng.Int64N(3600_000)
		}
		r.rows = append(r.rows, row)
	}
	for n := range rows {
		k := keyOf(n)
		row := rollupRow{print: printOf(&k), key: k}
		if n%10 != 0 {
			row.text = fmt.Sprintf("SELECT column_%d FROM %s", n, strings.Repeat("x", rng.IntN(900)))
		}
		add(row)
	}
	add(rollupRow{print: otherPrint()})
	add(rollupRow{print: evictedPrint()})
	slices.SortFunc(r.rows, func(a, b rollupRow) int { return a.print.compare(b.print) })
	r.owed = owed{counts: counts{calls: 1}, spread: (&stmtstats.Histogram{Zero: 1}).AppendSpread(nil)}
	return r
}

func mustEncode(t testing.TB, r *rollup) []byte {
	t.Helper()
	text, err := r.encode()
	if err != nil {
		t.Fatal(err)
	}
	return text
}

func readRollup(text []byte) (*rollup, error) {
	f, err := openRollup(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		return nil, err
	}
	var u unzipper
	defer u.close()
	return f.read(&u)
}

var rollupTypes = cmp.AllowUnexported(rollup{}, rollupRow{}, counts{}, owed{})

func TestRollupRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, rows := range []int{0, 1, 3, 300, 5000} {
		want := randomRollup(rng, rollupStart, rows)
		text := mustEncode(t, want)
		if again := mustEncode(t, want); !bytes.Equal(text, again) {
			t.Errorf("%d rows: two files of one content differ", rows)
		}
		got, err := readRollup(text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got, rollupTypes); diff != "" {
			t.Errorf("%d rows (-want +got):\n%s", rows, diff)
		}
		t.Logf("%d rows take %d bytes", rows, len(text))
	}
}

// TestRollupDamage cuts a file off at each byte and flips each bit in turn: that is an error of the file,
// when it is opened or when what is damaged is read.
func TestRollupDamage(t *testing.T) {
	text := mustEncode(t, randomRollup(rand.New(rand.NewPCG(5, 6)), rollupStart, 8))
	check := func(what string, damaged []byte) {
		t.Helper()
		var bad *rollupError
		if _, err := readRollup(damaged); !errors.As(err, &bad) {
			t.Fatalf("%s: %v", what, err)
		}
	}
	for n := range text {
		check(fmt.Sprintf("cut off at %d", n), text[:n])
		damaged := slices.Clone(text)
		damaged[n] ^= 1 << (n % 8)
		check(fmt.Sprintf("a bit of byte %d flipped", n), damaged)
	}
	check("a byte more", append(slices.Clone(text), 0))
}

// seal makes the checksums of a file right again.
func seal(text []byte) []byte {
	text = slices.Clone(text)
	if len(text) < rollupHeader+rollupTail {
		return text
	}
	le := binary.LittleEndian
	le.PutUint32(text[rollupHeader-4:], crc32.Checksum(text[:rollupHeader-4], castagnoli))
	tail := len(text) - rollupTail
	footer := tail - int(le.Uint32(text[tail+4:]))
	if footer < rollupHeader || footer > tail {
		return text
	}
	at := rollupHeader
	for b := text[footer:tail]; len(b) >= 12; {
		bytes := int(le.Uint64(b[4:]))
		b = b[12:]
		if bytes < 0 || bytes > footer-at || len(b) < 4*((bytes+rollupPage-1)/rollupPage) {
			break
		}
		for from := 0; from < bytes; from += rollupPage {
			le.PutUint32(b, crc32.Checksum(text[at+from:at+min(from+rollupPage, bytes)], castagnoli))
			b = b[4:]
		}
		at += bytes
	}
	le.PutUint32(text[tail:], crc32.Checksum(text[footer:tail], castagnoli))
	return text
}

// TestRollupVersion1 reads a file of a version before, whose spreads ascend: it says what it said then.
func TestRollupVersion1(t *testing.T) {
	text, err := os.ReadFile(filepath.Join("testdata", "rollup-v1.rollup"))
	if err != nil {
		t.Fatal(err)
	}
	got, err := readRollup(text)
	if err != nil {
		t.Fatal(err)
	}
	want := randomRollup(rand.New(rand.NewPCG(1, 2)), rollupStart, 40)
	if diff := cmp.Diff(want, got, rollupTypes); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
}

// TestRollupSeal checks the fuzz test's own means.
func TestRollupSeal(t *testing.T) {
	text := mustEncode(t, randomRollup(rand.New(rand.NewPCG(1, 2)), rollupStart, 60))
	if !bytes.Equal(seal(text), text) {
		t.Error("sealing a good file changes it")
	}
}

// TestRollupBound puts together what is too much for one file.
func TestRollupBound(t *testing.T) {
	r := &rollup{start: rollupStart.Truncate(rollupDay), span: rollupDay}
	var h stmtstats.Histogram
	h.Record(time.Millisecond)
	for n := range maxRollupRows + 500 {
		k := stmtstats.Key{Digest: [16]byte{byte(n >> 16), byte(n >> 8), byte(n)}}
		r.rows = append(r.rows, rollupRow{print: printOf(&k), key: k, counts: counts{calls: 1, nanos: uint64(n)}, spread: h.AppendSpread(nil)})
	}
	r.rows = append(r.rows, rollupRow{print: otherPrint(), counts: counts{calls: 7}}, rollupRow{print: evictedPrint(), counts: counts{calls: 9}})
	got, err := readRollup(mustEncode(t, r))
	if err != nil {
		t.Fatal(err)
	}
	var all counts
	var other, kept uint64
	least := uint64(math.MaxUint64)
	for i := range got.rows {
		row := &got.rows[i]
		all.add(&row.counts)
		if row.print == otherPrint() {
			other = row.counts.calls
		} else if !row.print.isSum() {
			kept++
			least = min(least, row.counts.nanos)
		}
	}
	const tracked = maxRollupRows + 500
	if len(got.rows) > maxRollupRows || kept < maxRollupRows-3 || all.calls != tracked+7+9 || other != 7+tracked-kept || least != tracked-kept {
		t.Errorf("%d rows, %d calls, %d of Other; the least that is kept has %d ns", len(got.rows), all.calls, other, least)
	}
}

// TestRollupNames reads back what names say.
func TestRollupNames(t *testing.T) {
	for _, want := range []rollupName{{rollupStart.Unix(), rollupHour}, {rollupStart.Truncate(rollupDay).Unix(), rollupDay}} {
		if got, ok := parseRollupName(want.String()); !ok || got != want {
			t.Errorf("%s is read as %v", want, got)
		}
	}
	for _, name := range []string{"", "hour-2026-03-01T10", "day-2026-03-01.rollup.tmp", rollupStateName, "hour-2026-13-01T10.rollup"} {
		if got, ok := parseRollupName(name); ok {
			t.Errorf("%q is read as %v", name, got)
		}
	}
}

// testStore is a store of rollups without samples.
func testStore(t *testing.T, dir string, bucket objstore.Bucket, now time.Time) *rollupStore {
	t.Helper()
	log := slog.New(slog.DiscardHandler)
	state := localstate.Open(t.TempDir(), nil, log)
	s := newShipper(bucket, t.TempDir(), nil, state, log)
	s.pause = time.Nanosecond
	r, err := openRollups(rollupOptions{
		dir: dir, labels: map[string]string{"instance": "gw-1"}, age: 30 * 24 * time.Hour,
		upload: s.bytes, state: state, now: func() time.Time { return now }, log: log,
	})
	if err != nil {
		t.Fatal(err)
	}
	return r
}

// TestRollupShip ships against a bucket whose every call may fail in both ways, and a process that ends between:
// at last all is there, whole, and each under one name.
func TestRollupShip(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	bucketDir, dir := t.TempDir(), t.TempDir()
	real := newRig(t, bucketDir, t.TempDir(), t.TempDir()).bucket
	want := make(map[string][]byte)
	for round := range 12 {
		flaky := &flakyBucket{Bucket: real, rand: rng, rate: 0.5}
		r := testStore(t, dir, flaky, rollupStart)
		if round < 4 {
			up := randomRollup(rng, rollupStart.Add(time.Duration(round)*time.Hour), 20)
			if err := r.write(up); err != nil {
				t.Fatal(err)
			}
			want[rollupName{up.start.Unix(), up.span}.String()] = mustEncode(t, up)
		}
		_ = r.ship(t.Context()) // it fails or not
		for _, n := range r.list(func(rollupName) bool { return true }) {
			if !r.shipped(n) {
				continue
			}
			object, err := real.Get(t.Context(), r.object(n))
			if err != nil {
				t.Fatal(err)
			}
			text, err := io.ReadAll(object)
			if err := errors.Join(err, object.Close()); err != nil || !bytes.Equal(text, want[n.String()]) {
				t.Fatalf("%v is noted as shipped, and differs (%v)", n, err)
			}
		}
	}
	r := testStore(t, dir, real, rollupStart)
	if err := r.ship(t.Context()); err != nil || len(r.known.Shipped) != len(want) {
		t.Errorf("%d are shipped of %d: %v", len(r.known.Shipped), len(want), err)
	}
	remote, err := listRollups(t.Context(), real, "")
	if err != nil || len(remote) != 1 || len(remote[0].files) != len(want) || remote[0].epoch != r.known.Epoch {
		t.Errorf("the bucket has %+v (%v)", remote, err)
	}
}

// TestRollupExpiry deletes hours whose day was made, and days, by age.
func TestRollupExpiry(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	dir := t.TempDir()
	bucket := newRig(t, t.TempDir(), t.TempDir(), t.TempDir()).bucket
	start := rollupStart.Truncate(rollupDay)
	r := testStore(t, dir, bucket, start)
	for hour := range 48 {
		if err := r.write(randomRollup(rng, start.Add(time.Duration(hour)*time.Hour), 1)); err != nil {
			t.Fatal(err)
		}
	}
	if err := r.ship(t.Context()); err != nil {
		t.Fatal(err)
	}
	// The second day has an hour that cannot be read: it is set aside.
	broken := filepath.Join(dir, rollupName{start.Add(30 * time.Hour).Unix(), rollupHour}.String())
	if err := os.WriteFile(broken, []byte("no rollup"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		after       time.Duration
		hours, days int
	}{
		{0, 47, 0},
		{23 * time.Hour, 47, 0},
		{49 * time.Hour, 47, 1},
		{hourAge + 20*time.Hour, 47 - 19, 1},
		{hourAge + 72*time.Hour, 23, 1},
		{33 * 24 * time.Hour, 0, 0},
	} {
		r = testStore(t, dir, bucket, start.Add(c.after))
		r.done = start.Add(min(c.after, 48*time.Hour))
		if err := r.days(); err != nil {
			t.Fatal(err)
		}
		if err := r.ship(t.Context()); err != nil {
			t.Errorf("after %v: ship: %v", c.after, err)
		}
		if err := r.expire(); err != nil {
			t.Fatal(err)
		}
		hours := r.list(func(n rollupName) bool { return n.span == rollupHour })
		if days := len(r.files) - len(hours); len(hours) != c.hours || days != c.days {
			t.Errorf("after %v: %d hours and %d days, want %d and %d", c.after, len(hours), days, c.hours, c.days)
		}
	}
}
