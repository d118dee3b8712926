package rollup_test

import (
	"bytes"
	"context"
	"errors"
	"fmt"
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

	"github.com/taredb/tare/internal/history/rollup"
	"github.com/taredb/tare/internal/history/stmtstats"
	"github.com/taredb/tare/internal/localstate"
	"github.com/taredb/tare/internal/testrollup"
)

func readRollup(text []byte) (*rollup.Rollup, error) {
	f, err := rollup.Open(bytes.NewReader(text), int64(len(text)))
	if err != nil {
		return nil, err
	}
	var u rollup.TextDecoder
	defer u.Close()
	return f.Read(&u)
}

func TestRollupRoundTrip(t *testing.T) {
	rng := rand.New(rand.NewPCG(5, 6))
	for _, rows := range []int{0, 1, 3, 300, 5000} {
		want := testrollup.Random(rng, testrollup.Start(), rows)
		text := testrollup.Encode(t, want)
		if again := testrollup.Encode(t, want); !bytes.Equal(text, again) {
			t.Errorf("%d rows: two files of one content differ", rows)
		}
		got, err := readRollup(text)
		if err != nil {
			t.Fatal(err)
		}
		if diff := cmp.Diff(want, got); diff != "" {
			t.Errorf("%d rows (-want +got):\n%s", rows, diff)
		}
		t.Logf("%d rows take %d bytes", rows, len(text))
	}
}

// TestRollupDamage truncates a file at each byte and flips each bit in turn: each is an error of the file,
// when it is opened or when the damaged part is read.
func TestRollupDamage(t *testing.T) {
	text := testrollup.Encode(t, testrollup.Random(rand.New(rand.NewPCG(5, 6)), testrollup.Start(), 8))
	check := func(what string, damaged []byte) {
		t.Helper()
		var bad *rollup.FormatError
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

// TestRollupVersions reads a file of version 2, which has no names of columns: all counts that it has are unchanged. One of version 1 is refused.
func TestRollupVersions(t *testing.T) {
	text, err := os.ReadFile("testdata/rollup-v2.rollup")
	if err != nil {
		t.Fatal(err)
	}
	got, err := readRollup(text)
	if err != nil {
		t.Fatal(err)
	}
	want := testrollup.Version2(testrollup.Random(rand.New(rand.NewPCG(1, 2)), testrollup.Start(), 40))
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	if sealed := testrollup.Seal(text); !bytes.Equal(sealed, text) {
		t.Error("sealing it changes it")
	}
	text[8] = 1
	var bad *rollup.FormatError
	if _, err := readRollup(testrollup.Seal(text)); !errors.As(err, &bad) || !strings.Contains(err.Error(), "of version 1:") {
		t.Errorf("version 1: %v", err)
	}
}

// TestRollupColumns reads files whose columns have other names: a count that is unknown is not read, one that the file lacks is 0,
// and all others are unchanged. A file that lacks another column is refused.
func TestRollupColumns(t *testing.T) {
	rename := func(from, to string) (*rollup.Rollup, error) {
		text := testrollup.Encode(t, testrollup.Random(rand.New(rand.NewPCG(7, 2)), testrollup.Start(), 40))
		renamed := bytes.ReplaceAll(text, append([]byte{byte(len(from))}, from...), append([]byte{byte(len(to))}, to...))
		if bytes.Equal(renamed, text) {
			t.Fatalf("there is no column %s", from)
		}
		return readRollup(testrollup.Seal(renamed))
	}
	got, err := rename("count.rows_affected", "count.rows_of_later")
	if err != nil {
		t.Fatal(err)
	}
	want := testrollup.Random(rand.New(rand.NewPCG(7, 2)), testrollup.Start(), 40)
	for i := range want.Rows {
		want.Rows[i].Counts[stmtstats.RowsAffected] = 0
	}
	if diff := cmp.Diff(want, got); diff != "" {
		t.Errorf("(-want +got):\n%s", diff)
	}
	for _, c := range [][2]string{{"spreads", "spraeds"}, {"firsts", "lasts2"}, {"count.rows_affected", "count.bytes_sent000"}, {"firsts", "totals"}} {
		var bad *rollup.FormatError
		if _, err := rename(c[0], c[1]); (c[1] != "count.bytes_sent000") != errors.As(err, &bad) {
			t.Errorf("%s is named %s: %v", c[0], c[1], err)
		}
	}
}

// TestRollupSeal checks the helper of the fuzz test.
func TestRollupSeal(t *testing.T) {
	text := testrollup.Encode(t, testrollup.Random(rand.New(rand.NewPCG(1, 2)), testrollup.Start(), 60))
	if !bytes.Equal(testrollup.Seal(text), text) {
		t.Error("sealing a good file changes it")
	}
}

// TestRollupBound merges more rows than fit in one file.
func TestRollupBound(t *testing.T) {
	r := &rollup.Rollup{Start: testrollup.Start().Truncate(rollup.Day), Span: rollup.Day}
	var h stmtstats.Histogram
	h.Record(time.Millisecond)
	for n := range rollup.MaxRows + 500 {
		k := stmtstats.Key{Digest: [16]byte{byte(n >> 16), byte(n >> 8), byte(n)}}
		r.Rows = append(r.Rows, rollup.Row{Print: rollup.PrintOf(&k), Key: k, Counts: stmtstats.Counts{stmtstats.Calls: 1, stmtstats.Nanos: uint64(n)}, Spread: h.AppendSpread(nil)})
	}
	r.Rows = append(r.Rows, rollup.Row{Print: rollup.OtherPrint(), Counts: stmtstats.Counts{stmtstats.Calls: 7}}, rollup.Row{Print: rollup.EvictedPrint(), Counts: stmtstats.Counts{stmtstats.Calls: 9}})
	got, err := readRollup(testrollup.Encode(t, r))
	if err != nil {
		t.Fatal(err)
	}
	var all stmtstats.Counts
	var other, kept uint64
	least := uint64(math.MaxUint64)
	for i := range got.Rows {
		row := &got.Rows[i]
		all.Add(&row.Counts)
		if row.Print == rollup.OtherPrint() {
			other = row.Counts[stmtstats.Calls]
		} else if !row.Print.IsSum() {
			kept++
			least = min(least, row.Counts[stmtstats.Nanos])
		}
	}
	const tracked = rollup.MaxRows + 500
	if len(got.Rows) > rollup.MaxRows || kept < rollup.MaxRows-3 || all[stmtstats.Calls] != tracked+7+9 || other != 7+tracked-kept || least != tracked-kept {
		t.Errorf("%d rows, %d calls, %d of Other; the least that is kept has %d ns", len(got.Rows), all[stmtstats.Calls], other, least)
	}
}

// TestRollupNames parses printed names.
func TestRollupNames(t *testing.T) {
	for _, want := range []rollup.Name{{Start: testrollup.Start().Unix(), Span: rollup.Hour}, {Start: testrollup.Start().Truncate(rollup.Day).Unix(), Span: rollup.Day}} {
		if got, ok := rollup.ParseName(want.String()); !ok || got != want {
			t.Errorf("%s is read as %v", want, got)
		}
	}
	for _, name := range []string{"", "hour-2026-03-01T10", "day-2026-03-01.rollup.tmp", "rollups.json", "hour-2026-13-01T10.rollup"} {
		if got, ok := rollup.ParseName(name); ok {
			t.Errorf("%q is read as %v", name, got)
		}
	}
}

// TestRollupExpiry deletes hours of merged days, and days, by age.
func TestRollupExpiry(t *testing.T) {
	rng := rand.New(rand.NewPCG(9, 9))
	dir := t.TempDir()
	start := testrollup.Start().Truncate(rollup.Day)
	log := slog.New(slog.DiscardHandler)
	open := func(now time.Time) *rollup.Store {
		r, err := rollup.OpenStore(rollup.StoreOptions{
			Dir: dir, Labels: map[string]string{"instance": "gw-1"}, Age: 30 * 24 * time.Hour,
			Upload: func(context.Context, string, []byte) error { return nil },
			State:  localstate.Open(t.TempDir(), nil, log), Now: func() time.Time { return now }, Log: log,
		})
		if err != nil {
			t.Fatal(err)
		}
		return r
	}
	r := open(start)
	for hour := range 48 {
		if err := r.Write(testrollup.Random(rng, start.Add(time.Duration(hour)*time.Hour), 1)); err != nil {
			t.Fatal(err)
		}
	}
	// The second day has a shipped hour that is set aside because it cannot be read.
	name := rollup.Name{Start: start.Add(30 * time.Hour).Unix(), Span: rollup.Hour}
	if err := r.Work(t.Context(), nil, 0); err != nil {
		t.Fatal(err)
	}
	if err := os.Remove(filepath.Join(dir, rollup.Name{Start: start.Add(24 * time.Hour).Unix(), Span: rollup.Day}.String())); err != nil {
		t.Fatal(err)
	}
	if err := os.WriteFile(filepath.Join(dir, name.String()), []byte("no rollup"), 0o600); err != nil {
		t.Fatal(err)
	}
	for _, c := range []struct {
		after       time.Duration
		hours, days int
	}{
		{49 * time.Hour, 47, 1},
		{rollup.HourAge + 20*time.Hour, 47 - 19, 1},
		{rollup.HourAge + 72*time.Hour, 23, 1},
		{33 * 24 * time.Hour, 0, 0},
	} {
		r = open(start.Add(c.after))
		if err := r.Work(t.Context(), nil, 0); err != nil {
			t.Errorf("after %v: %v", c.after, err)
		}
		hours := len(r.List(func(n rollup.Name) bool { return n.Span == rollup.Hour }))
		days := len(r.List(func(n rollup.Name) bool { return n.Span == rollup.Day }))
		if hours != c.hours || days != c.days {
			t.Errorf("after %v: %d hours and %d days, want %d and %d", c.after, hours, days, c.hours, c.days)
		}
	}
}
